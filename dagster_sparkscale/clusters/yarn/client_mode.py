"""Streams on YARN, their drivers on the host that Dagster runs on (client deploy mode)."""

from dataclasses import replace
from pathlib import Path

from pydantic import Field

from dagster_sparkscale.clusters.capacity import Capacity
from dagster_sparkscale.clusters.host.cluster import HostedCluster
from dagster_sparkscale.clusters.host.launch import Runtime
from dagster_sparkscale.clusters.yarn.cluster import refuse_without_settings, user_or_me
from dagster_sparkscale.clusters.yarn.resource_manager import ResourceManager, Web, room_of


class YarnClientCluster(HostedCluster):
    """Runs the executors of streams on YARN, and their drivers on the host that Dagster runs on,
    which the nodes must reach. All settings may be `dg.EnvVar`s."""

    hadoop_conf_dir: str = Field(
        description="Folder of the cluster's core-site.xml and yarn-site.xml, on this host."
    )
    resource_managers: list[str] = Field(
        default_factory=list,
        description="Web addresses of the ResourceManagers, http://host:8088: needed to tell the "
        "free cores.",
    )
    queue: str = Field(default="default", description="Queue that applications are submitted to.")
    user: str | None = Field(
        default=None,
        description="Who applications belong to where YARN believes what it is told (simple "
        "authentication). Default: HADOOP_USER_NAME, or the user of this process.",
    )
    ca_file: str | None = Field(
        default=None,
        description="Certificates of who signs for ResourceManagers that speak HTTPS, PEM, on this "
        "host. Default: what REQUESTS_CA_BUNDLE names, or the system's.",
    )

    def capacity(self) -> Capacity | None:
        web = Web(user_or_me(self.user), self.ca_file)
        return room_of(ResourceManager(tuple(self.resource_managers), web))

    def _master(self) -> str:
        refuse_without_settings(self.hadoop_conf_dir)
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
        conf = str(Path(self.hadoop_conf_dir).expanduser())
        env = {"HADOOP_CONF_DIR": conf, "YARN_CONF_DIR": conf}
        if self.user:
            env["HADOOP_USER_NAME"] = self.user
        return replace(super()._runtime(), env=env)
