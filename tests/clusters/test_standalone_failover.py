"""StandaloneRestCluster while masters fail over and workers are lost and come back."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import AlreadyRunning
from dagster_sparkscale.clusters.standalone.rest_cluster import StandaloneRestCluster
from dev.standalone import Standalone
from tests.clusters.rest_mode import environment, nothing_left, on
from tests.clusters.running import newest, scale, see_ended, see_to, stop, stream, wait_running
from tests.waiting import HANGS, patience, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.clusters]

WORKERS = "worker 0", "worker 1"


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(
        tmp_path_factory.mktemp("standalone"),
        masters=2,
        workers=2,
        environment=environment(),
        lost_after=round(patience(6)),
        wait_seconds=HANGS,
    ) as standalone:
        yield standalone


@pytest.fixture(scope="module")
def cluster(
    standalone: Standalone, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StandaloneRestCluster]:
    cluster = on(standalone, tmp_path_factory.mktemp("state") / "state")
    yield cluster
    for name in cluster.store().streams():
        see_ended(cluster, name)


@pytest.fixture
def running(cluster: StandaloneRestCluster) -> StandaloneRestCluster:
    see_to(cluster, stream("clicks", "rate.py"))
    return cluster


def state(cluster: StandaloneRestCluster) -> DriverState:
    return newest(cluster, "clicks").state


def lost(standalone: Standalone) -> bool:
    """Whether the master has given up all workers, and the driver with them."""
    overview = standalone.overview() or {}
    return overview.get("aliveworkers") == 0 and not overview.get("activedrivers")


def test_a_stream_goes_on_while_another_master_takes_over(
    running: StandaloneRestCluster, standalone: Standalone
) -> None:
    before, first = newest(running, "clicks"), standalone.in_charge()
    assert first is not None
    standalone.signal(f"master {first}", signal.SIGKILL)
    assert standalone.overview() is None
    assert running.capacity() is None
    wait_for("its agent to answer", lambda: state(running) is DriverState.RUNNING)
    standalone.wait(lambda: standalone.in_charge() == 1 - first, "the other master")
    wait_for("the workers to come over", lambda: standalone.alive_workers() == 2)
    wait_running(running, "clicks", 1)
    assert newest(running, "clicks") == before
    # The new master knows of no limit until it is stated again, and would fill all cores.
    scale(running, "clicks", 2)
    wait_running(running, "clicks", 2)
    standalone.start_master(first)  # as a standby, which is asked first or last
    stopped = stop(running, "clicks", timeout=HANGS)
    assert (stopped.state, stopped.exit_reason) == (DriverState.STOPPED, "stop requested")
    assert nothing_left(standalone, "clicks", stopped.epoch)
    see_to(running, stream("clicks", "rate.py"))
    assert newest(running, "clicks").epoch == stopped.epoch + 1


def test_a_driver_whose_worker_is_lost_runs_on_and_is_told_of_when_it_is_back(
    running: StandaloneRestCluster, standalone: Standalone
) -> None:
    before = newest(running, "clicks")
    for name in WORKERS:
        standalone.signal(name, signal.SIGSTOP)
    wait_for("the workers to be lost", lambda: lost(standalone))
    wait_for("its agent to answer", lambda: state(running) is DriverState.RUNNING)
    with (
        running.lease("clicks", "test", wait=HANGS) as lease,
        pytest.raises(AlreadyRunning, match=r"'clicks' is (running|unknown) already"),
    ):
        running.submit(stream("clicks", "rate.py"), lease)
    for name in WORKERS:
        standalone.signal(name, signal.SIGCONT)
    # The master has a worker that is back end what it has given up.
    wait_for("the driver to have failed", lambda: state(running) is DriverState.FAILED)
    reason = newest(running, "clicks").exit_reason
    # Asked by its worker to end, the JVM stops Spark first, and the program may die of that, in
    # whichever call it is.
    killed = "its JVM was killed, by the kernel, its worker or the master"
    assert reason == killed or str(reason).startswith("exit code 1: ")
    wait_for("all of it to be gone", lambda: nothing_left(standalone, "clicks", before.epoch))
    wait_for("the workers to be back", lambda: standalone.alive_workers() == 2)
    see_to(running, stream("clicks", "rate.py"))


def test_a_driver_that_died_with_its_worker_is_told_of_when_another_is_there(
    running: StandaloneRestCluster, standalone: Standalone
) -> None:
    before = newest(running, "clicks")
    for name in WORKERS:
        standalone.signal(name, signal.SIGKILL)
    wait_for("the workers to be lost", lambda: lost(standalone))
    wait_for("the driver to be gone", lambda: nothing_left(standalone, "clicks", before.epoch))
    unknown = newest(running, "clicks")
    # It may be on the other side of a network that is cut: nothing proves that it has ended.
    assert (unknown.state, unknown.exit_reason) == (DriverState.UNKNOWN, "its worker is lost")
    with (
        running.lease("clicks", "test", wait=HANGS) as lease,
        pytest.raises(AlreadyRunning, match="declare_gone for epoch"),
    ):
        running.submit(stream("clicks", "rate.py"), lease)
    standalone.start_worker(0)
    wait_for("the driver to have failed", lambda: state(running) is DriverState.FAILED)
    see_to(running, stream("clicks", "rate.py"))


def test_a_driver_waits_for_room_and_can_be_stopped_while_it_does(
    cluster: StandaloneRestCluster, standalone: Standalone, tmp_path: Path
) -> None:
    see_ended(cluster, "large")
    declared = stream("large", "idle.py", driver_memory="64g")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dagster_sparkscale.clusters.spark_cluster.ANNOUNCE_SECONDS", 1.0)
        with cluster.lease("large", "test", wait=HANGS) as lease:
            waiting = cluster.submit(declared, lease)
    assert waiting.state is DriverState.STARTING
    assert "waits for a worker with room for it" in waiting.where
    stopped = stop(cluster, "large", graceful=False, timeout=1)
    assert (stopped.state, stopped.exit_reason) == (DriverState.STOPPED, "stop requested")
