"""Streams on YARN, their drivers on the host that Dagster runs on (client deploy mode)."""

from dataclasses import replace

from dagster_sparkscale.clusters.host.cluster import HostedCluster
from dagster_sparkscale.clusters.host.launch import Runtime
from dagster_sparkscale.clusters.yarn.cluster import OnYarn
from dagster_sparkscale.clusters.yarn.launch import client_env


class YarnClientCluster(OnYarn, HostedCluster):
    """Runs the executors of streams on YARN, and their drivers on the host that Dagster runs on,
    which the nodes must reach. All settings may be `dg.EnvVar`s."""

    def _master(self) -> str:
        self._refuse_without_settings()
        return "yarn"

    def _on_loopback(self) -> bool:
        return False

    def _access(self) -> dict[str, str]:
        return {
            "spark.yarn.queue": self.queue,
            # Or Spark begins with two; the agent states the target.
            "spark.executor.instances": "1",
            "spark.executor.maxNumFailures": "1000000",
        }

    def _runtime(self) -> Runtime:
        return replace(super()._runtime(), env=client_env(str(self._conf_dir()), self.user))
