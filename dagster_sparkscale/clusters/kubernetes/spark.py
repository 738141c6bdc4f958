"""Spark settings of a driver that is a pod, in client mode: it asks for its executors itself. Pure.

What must not change: what keeps two starts apart, and what the cluster finds them by, is ours;
everything else is the user's where he has set it.
"""

from collections.abc import Mapping

from dagster_sparkscale.clusters.kubernetes import names
from dagster_sparkscale.clusters.kubernetes.templates import Placing
from dagster_sparkscale.clusters.launch.driver_options import Invocation
from dagster_sparkscale.clusters.launch.spark_settings import settings
from dagster_sparkscale.clusters.records.store import Record

MASTER = "k8s://https://kubernetes.default.svc"
DRIVER_PORT, BLOCKS_PORT, AGENT_PORT, UI_PORT = 7078, 7079, 7080, 4040

_DEFAULTS = {
    "spark.ui.port": str(UI_PORT),
    # A refusal for a quota, or an outage of the API server, counts as a failed executor: with
    # Spark's own limit the fourth one ends the driver, within seconds.
    "spark.executor.maxNumFailures": "1000000",
    "spark.kubernetes.allocation.batch.delay": "500ms",
    # As Spark has it for Python where it knows of it, which it does in cluster mode only.
    "spark.executor.memoryOverheadFactor": "0.4",
    # There is none of Spark's own, and the driver may not look for it.
    "spark.kubernetes.driver.service.deleteOnTermination": "false",
}


def settings_in_a_pod(
    call: Invocation,
    record: Record,
    placing: Placing,
    common: Mapping[str, str],
    template: str | None = None,
) -> dict[str, str]:
    """All Spark settings of the driver of one start.

    Args:
        record: of this start.
        common: of the cluster.
        template: path of the executors' pod template, in the driver's pod.
    """
    stream, epoch, namespace = call.stream, record.epoch, placing.namespace
    name = names.of_epoch(stream.name, epoch)
    optional = {
        "spark.kubernetes.container.image.pullPolicy": placing.pull_policy,
        "spark.kubernetes.container.image.pullSecrets": ",".join(placing.pull_secrets),
        "spark.kubernetes.authenticate.executor.serviceAccountName": placing.executor_account,
        "spark.kubernetes.executor.podTemplateFile": template,
    }
    selector = placing.node_selector
    placed = {
        "spark.kubernetes.container.image": placing.image,
        **{f"spark.kubernetes.node.selector.{key}": selector[key] for key in selector},
        **{key: value for key, value in optional.items() if value},
    }
    ours = {
        "spark.app.id": app_id(stream.name, epoch, record.id),
        "spark.executor.instances": str(record.executors or stream.bounds.initial),
        "spark.kubernetes.namespace": namespace,
        "spark.kubernetes.driver.pod.name": name,
        "spark.kubernetes.executor.podNamePrefix": names.of_epoch(
            stream.name, epoch, names.EXECUTORS
        ),
        # Else the address listened on, such as 0.0.0.0, is what executors are told.
        "spark.kubernetes.executor.useDriverPodIP": "false",
        "spark.driver.host": host(stream.name, epoch, namespace),
        "spark.driver.bindAddress": placing.bind,
        "spark.driver.port": str(DRIVER_PORT),
        "spark.driver.blockManager.port": str(BLOCKS_PORT),
        **{
            f"spark.kubernetes.executor.label.{key}": value
            for key, value in names.labels(stream.name, epoch, record.id).items()
        },
    }
    base = {**_DEFAULTS, **placed, **common}
    return settings(stream, epoch, MASTER, base, more=call.settings) | ours


def host(stream: str, epoch: int, namespace: str) -> str:
    """The driver's name in the cluster, by its Service."""
    return f"{names.of_epoch(stream, epoch)}.{namespace}.svc"


def app_id(stream: str, epoch: int, record: str) -> str:
    """The application's id: of this start alone, also of a stream that was forgotten before."""
    return f"{names.of_epoch(stream, epoch, 63 - 9)}-{record[:8]}"
