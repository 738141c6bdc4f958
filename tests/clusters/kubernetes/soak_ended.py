"""What is told of a driver whose pod is ended by others, or whose node is lost."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dagster_sparkscale import KubernetesCluster
from dagster_sparkscale.clusters.base import Driver, DriverState
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.kubernetes import names
from dev.kubernetes.running import Cluster
from tests.clusters.running import newest, see_ended, see_to, stream, submit
from tests.kubernetes import Object
from tests.waiting import wait_for

pytestmark = [pytest.mark.kubernetes, pytest.mark.spark]


def pod_of(kubernetes: Cluster, space: str, driver: Driver) -> Object:
    return kubernetes.pod(space, names.of_epoch(driver.stream, driver.epoch))


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A process that does not get on, as on a node that hangs."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def failed(cluster: KubernetesCluster, name: str) -> str:
    seen = wait_for(
        "it to have failed", lambda: (d := newest(cluster, name)).state is DriverState.FAILED and d
    )
    assert seen
    return str(seen.exit_reason)


def test_an_evicted_driver(kubernetes: Cluster, cluster: KubernetesCluster, space: str) -> None:
    see_to(cluster, stream("moved"))
    message = "The node was low on resource: memory."
    kubernetes.evict(pod_of(kubernetes, space, newest(cluster, "moved")), message)
    assert failed(cluster, "moved") == f"evicted: {message}"


def test_a_driver_out_of_memory(
    kubernetes: Cluster, cluster: KubernetesCluster, space: str
) -> None:
    see_to(cluster, stream("moved"))
    pod = pod_of(kubernetes, space, newest(cluster, "moved"))
    kubernetes.kill(pod, out_of_memory=True)
    assert "killed by signal 9: out of memory (OOMKilled)" in failed(cluster, "moved")


def test_a_preempted_driver_ends_in_order_and_says_why(
    kubernetes: Cluster, cluster: KubernetesCluster, space: str
) -> None:
    see_to(cluster, stream("moved"))
    kubernetes.preempt(pod_of(kubernetes, space, newest(cluster, "moved")))
    assert "reempted" in failed(cluster, "moved")


def test_a_driver_whose_node_is_silent_is_not_taken_for_gone(
    kubernetes: Cluster, cluster: KubernetesCluster, space: str
) -> None:
    see_to(cluster, stream("moved"))
    driver = newest(cluster, "moved")
    pod = pod_of(kubernetes, space, driver)
    with kubernetes.silent_node(pod):
        # Its agent is heard all the same: only Kubernetes has lost it.
        runs = DriverState.RUNNING
        wait_for("its agent to answer", lambda: newest(cluster, "moved").state is runs)
        pid = kubernetes.pid(pod)
        with stopped(pid):
            seen = newest(cluster, "moved")
            assert seen.state is DriverState.UNKNOWN
            assert "does not answer" in str(seen.exit_reason)
            with pytest.raises(ClusterError, match="moved"):
                submit(cluster, stream("moved"))
    assert newest(cluster, "moved").epoch == driver.epoch
    see_ended(cluster, "moved")
