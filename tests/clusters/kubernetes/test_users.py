"""Drivers and executors as another user than root, with what docs/kubernetes.md says for that."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from dagster_sparkscale import KubernetesCluster
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.kubernetes import names
from dagster_sparkscale.driver.begin.fence import FILE
from dev.kubernetes.running import Cluster
from tests.clusters.kubernetes.test_mishaps import RESTRICTED, other, restricted
from tests.clusters.running import newest, see_to, status, stop, stream
from tests.waiting import HANGS, wait_for

pytestmark = [pytest.mark.kubernetes, pytest.mark.spark]

USER = 185


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that any user may use, as pods' users do."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def test_a_stream_lives_in_a_namespace_that_admits_restricted_pods_only(
    kubernetes: Cluster, cluster: KubernetesCluster, space: str, shared: Path
) -> None:
    template = {"driver_template": RESTRICTED, "executor_template": RESTRICTED}
    safe = other(cluster, **template)
    checkpoint = shared / "checkpoint"
    declared = stream("safe", "rate.py", checkpoint_location=str(checkpoint))
    with restricted(kubernetes, space):
        see_to(safe, declared)
        wait_for("a batch", lambda: (seen := status(safe, "safe")) and seen.batches)
        driver = newest(safe, "safe")
        label = f"{names.STREAM}={names.short_name('safe')}"
        pods = kubernetes.api.items(f"/api/v1/namespaces/{space}/pods?labelSelector={label}")
        assert len(pods) == 2
        for each in pods:
            assert psutil.Process(kubernetes.pid(each)).uids().effective == USER
        assert (checkpoint / FILE).stat().st_uid == USER
        ended = stop(safe, "safe", graceful=True, timeout=HANGS)
        assert ended.state is DriverState.STOPPED
        # It has left its last words, in a file that is not its own.
        pod = kubernetes.pod(space, names.of_epoch("safe", driver.epoch))
        (container,) = pod["status"]["containerStatuses"]
        left = json.loads(container["state"]["terminated"]["message"])
        assert left["stopped"]["ended_itself"] and left["took"]
