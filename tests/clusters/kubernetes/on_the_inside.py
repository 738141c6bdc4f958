"""A Dagster in a pod, with nothing but the pod's service account: the life of one stream by runs.

python -m tests.clusters.kubernetes.on_the_inside NAMESPACE URL-OF-THE-PROGRAM
"""

import sys
import tempfile
from pathlib import Path

from dagster_sparkscale import KubernetesCluster, StructuredStream
from dagster_sparkscale.clusters.base import DriverState
from tests.clusters.running import newest, wait_running
from tests.e2e.deployment import Deployment
from tests.waiting import wait_for


def main(space: str, program: str) -> None:
    stream = StructuredStream(
        name="inside",
        program=program,
        batch_interval="1s",
        executor_memory="512m",
        driver_memory="512m",
    )
    cluster = KubernetesCluster(image="spark", namespace=space)
    wrong = [each for each in cluster.conditions([stream]) if each.wrong]
    assert wrong == [], wrong
    with tempfile.TemporaryDirectory() as home:
        dagster = Deployment(cluster, stream, Path(home))
        assert dagster.materialize().success
        host = f"sparkscale-inside-1.{space}.svc"
        wait_running(cluster, "inside")
        assert newest(cluster, "inside").agent_url == f"https://{host}:7080"
        wait_for("a batch", lambda: (seen := dagster.status()) and seen.batches)
        assert dagster.run("rescale", target=2, wait_seconds=120.0).success
        wait_running(cluster, "inside", executors=2)
        assert dagster.run("stop").success
        ended = newest(cluster, "inside")
        assert ended.state is DriverState.STOPPED, ended
        print(f"reached at {host}, and {ended.ending}")


if __name__ == "__main__":
    main(*sys.argv[1:])
