"""Drivers and executors as another user than root, with what docs/kubernetes.md says for that; or
as one without a name, by the entrypoint of our image."""

import copy
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
from dev.installing import Way, ensure, install_with_apt
from dev.kubernetes.running import Cluster
from tests.clusters.kubernetes.test_mishaps import RESTRICTED, other, restricted
from tests.clusters.running import newest, see_to, status, stop, stream
from tests.deploy.test_images import ENTRYPOINT
from tests.waiting import HANGS, wait_for

pytestmark = [pytest.mark.kubernetes, pytest.mark.spark]

USER = 185
NOBODY = 123_456
"""Has no entry in any /etc/passwd."""


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


@pytest.fixture
def nss_wrapper() -> None:
    """The library that our image has."""
    package, places = "libnss-wrapper", Path("/usr/lib")
    way = Way(f"installing the package {package}", lambda: install_with_apt(package))
    found = ensure(package, lambda: next(places.glob("*/libnss_wrapper.so"), None), [way])
    if found is None:
        pytest.skip(f"{package} is not there, and can't be installed")


@pytest.mark.usefixtures("nss_wrapper")
def test_a_user_without_a_name_is_given_one_by_the_entrypoint_of_our_image(
    kubernetes: Cluster, cluster: KubernetesCluster, space: str, shared: Path
) -> None:
    """Hadoop ends drivers and executors of such a user, as OpenShift makes them up."""
    template = copy.deepcopy(RESTRICTED)
    template["spec"]["securityContext"]["runAsUser"] = NOBODY
    [container] = template["spec"]["containers"]
    container["command"] = ["/bin/bash", str(ENTRYPOINT)]
    nameless = other(cluster, driver_template=template, executor_template=template)
    see_to(nameless, stream("nameless", "rate.py", checkpoint_location=str(shared / "checkpoint")))
    wait_for("a batch", lambda: (seen := status(nameless, "nameless")) and seen.batches)
    label = f"{names.STREAM}=nameless"
    pods = kubernetes.api.items(f"/api/v1/namespaces/{space}/pods?labelSelector={label}")
    assert [psutil.Process(kubernetes.pid(each)).uids().effective for each in pods] == [NOBODY] * 2
    stop(nameless, "nameless", graceful=True, timeout=HANGS)
