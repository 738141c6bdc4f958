"""Spark settings of a driver that is a pod, in client mode: it asks for its executors itself. Pure.

What must not change: what keeps two starts apart, and what the cluster finds them by, is ours;
everything else is the user's where he has set it.
"""

from collections.abc import Mapping, Sequence

from dagster_sparkscale.clusters.kubernetes import names
from dagster_sparkscale.clusters.launch.spark_settings import settings
from dagster_sparkscale.declare.stream import Stream

MASTER = "k8s://https://kubernetes.default.svc"
DRIVER_PORT, BLOCKS_PORT, AGENT_PORT, UI_PORT = 7078, 7079, 7080, 4040
FOREVER = "1000000"

NOWHERE: Mapping[str, str] = {}
_DEFAULTS = {
    "spark.ui.port": str(UI_PORT),
    # A refusal for a quota, or an outage of the API server, counts as a failed executor: with
    # Spark's own limit the fourth one ends the driver, within seconds.
    "spark.executor.maxNumFailures": FOREVER,
    "spark.kubernetes.allocation.batch.delay": "500ms",
    # As Spark has it for Python where it knows of it, which it does in cluster mode only.
    "spark.executor.memoryOverheadFactor": "0.4",
    # There is none of Spark's own, and the driver may not look for it.
    "spark.kubernetes.driver.service.deleteOnTermination": "false",
}


def settings_in_a_pod(
    stream: Stream,
    epoch: int,
    record: str,
    *,
    common: Mapping[str, str],
    executors: int,
    namespace: str,
    image: str,
    pull_policy: str | None = None,
    pull_secrets: Sequence[str] = (),
    node_selector: Mapping[str, str] = NOWHERE,
    executor_account: str | None = None,
    bind: str = "0.0.0.0",
    template: str | None = None,
    more: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """All settings of the driver of `stream`.

    Args:
        common: of the cluster.
        executors: the number to begin with.
        executor_account: the service account of executors; None: that of their template.
        bind: address that the driver listens on.
        template: path of the executors' pod template, in the driver's pod.
        more: settings of this one start, over all others.
    """
    name = names.of_epoch(stream.name, epoch)
    optional = {
        "spark.kubernetes.container.image.pullPolicy": pull_policy,
        "spark.kubernetes.container.image.pullSecrets": ",".join(pull_secrets),
        "spark.kubernetes.authenticate.executor.serviceAccountName": executor_account,
        "spark.kubernetes.executor.podTemplateFile": template,
    }
    placed = {
        "spark.kubernetes.container.image": image,
        **{f"spark.kubernetes.node.selector.{key}": node_selector[key] for key in node_selector},
        **{key: value for key, value in optional.items() if value},
    }
    ours = {
        "spark.app.id": app_id(stream.name, epoch, record),
        "spark.executor.instances": str(executors),
        "spark.kubernetes.namespace": namespace,
        "spark.kubernetes.driver.pod.name": name,
        "spark.kubernetes.executor.podNamePrefix": names.of_epoch(
            stream.name, epoch, names.EXECUTORS
        ),
        # Else the address listened on, such as 0.0.0.0, is what executors are told.
        "spark.kubernetes.executor.useDriverPodIP": "false",
        "spark.driver.host": host(stream.name, epoch, namespace),
        "spark.driver.bindAddress": bind,
        "spark.driver.port": str(DRIVER_PORT),
        "spark.driver.blockManager.port": str(BLOCKS_PORT),
        **{
            f"spark.kubernetes.executor.label.{key}": value
            for key, value in names.labels(stream.name, epoch, record).items()
        },
    }
    base = {**_DEFAULTS, **placed, **common}
    return settings(stream, epoch, MASTER, base, more=more) | ours


def host(stream: str, epoch: int, namespace: str) -> str:
    """The driver's name in the cluster, by its Service."""
    return f"{names.of_epoch(stream, epoch)}.{namespace}.svc"


def app_id(stream: str, epoch: int, record: str) -> str:
    """The application's id: of this start alone, also of a stream that was forgotten before."""
    return f"{names.of_epoch(stream, epoch, 63 - 9)}-{record[:8]}"
