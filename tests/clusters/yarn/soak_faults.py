"""What goes wrong on a real YARN, and is told: never is a driver taken for ended that may run."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import AlreadyRunning, ClusterError
from dagster_sparkscale.clusters.records.store import Record, Submission
from dagster_sparkscale.clusters.yarn import resource_manager
from dagster_sparkscale.clusters.yarn.cluster import YarnCluster
from dev.yarn.rig import Rig
from dev.yarn.settings import NARROW
from tests.clusters.running import (
    newest,
    see_ended,
    see_to,
    stop,
    stream,
    submit,
)
from tests.clusters.yarn.cluster_mode import cluster_on, containers
from tests.clusters.yarn.conftest import INHERITED
from tests.waiting import HANGS, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.yarn]


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """One whose ResourceManager can be killed, and that gathers logs."""
    folder = tmp_path_factory.mktemp("faults") / "rig"
    with Rig(folder, aggregate=True, passed=INHERITED) as rig:
        yield rig


@pytest.fixture(scope="module")
def cluster(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> YarnCluster:
    return cluster_on(rig.address, tmp_path_factory.mktemp("state") / "state")


def test_what_a_program_died_of_is_known_also_where_yarn_has_gathered_its_log(
    cluster: YarnCluster, rig: Rig
) -> None:
    # Whether it lives long enough for its agent to be found is a matter of luck.
    with contextlib.suppress(ClusterError):
        submit(cluster, stream("crash", "crash.py"))
    crashed = wait_for(
        "the crash", lambda: (d := newest(cluster, "crash")).state is DriverState.FAILED and d
    )
    assert crashed and crashed.exit_reason == "exit code 1: RuntimeError: no such topic: clicks"

    gathered = f"aggregated/**/{crashed.app_id}/*"
    wait_for("its log to be gathered", lambda: list(rig.folder.glob(gathered)))
    # As where Dagster looks after the node has deleted it: what was kept is not there.
    files = cluster.store().folder("crash").submission(1)
    files.ended.unlink()
    files.log.unlink()
    wait_for("its node to have no log", lambda: _node_has_none(cluster))
    assert newest(cluster, "crash") == crashed
    assert "no such topic: clicks" in cluster.logs(crashed)


def _node_has_none(cluster: YarnCluster) -> bool:
    record = cluster.store().read("crash")
    assert record is not None
    app = cluster._manager().tagged(f"sparkscale-{record.id}-1")[0]
    assert app.node_url and app.container
    web = cluster._manager().web
    return resource_manager.log(app.node_url, app.container, "stdout", 100, web) is None


def test_a_queue_that_is_full_is_told(rig: Rig, tmp_path: Path) -> None:
    narrow = cluster_on(rig.address, tmp_path / "state", queue=NARROW)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dagster_sparkscale.clusters.spark_cluster.ANNOUNCE_SECONDS", 0.0)
        first, second = (submit(narrow, stream(name)) for name in ("first", "second"))
    assert first.state is DriverState.STARTING
    told = wait_for("it to wait", lambda: "AM resource limit" in newest(narrow, "second").where)
    assert told and second.state is DriverState.STARTING
    with pytest.raises(ClusterError, match=r"did not take .*'third': .*cannot accept submission"):
        submit(narrow, stream("third"))
    third = newest(narrow, "third")
    assert third.state is DriverState.FAILED
    assert "cannot accept submission" in str(third.exit_reason)
    for name in ("second", "first"):
        assert see_ended(narrow, name).state is DriverState.STOPPED  # type: ignore[union-attr]


def test_a_late_driver_of_an_earlier_start_is_ended_before_the_next_and_leaves_no_files(
    cluster: YarnCluster, rig: Rig, tmp_path: Path
) -> None:
    declared = stream("late", checkpoint_location=str(tmp_path / "checkpoint"))
    see_to(cluster, declared)
    old = newest(cluster, "late")
    # As if its start, held up, had come to an end after somebody had declared it gone.
    record = cluster.store().read("late")
    assert record is not None
    with cluster.lease("late", "test", wait=HANGS) as lease:
        lease.write(_with_epoch(lease.record))
    assert containers(old.app_id)
    again = submit(cluster, declared)
    assert again.epoch == old.epoch + 2
    assert not containers(old.app_id, driver=True)
    # Of another state folder the new driver is a stranger, known by its checkpoint.
    another = cluster_on(rig.address, tmp_path / "another")
    with pytest.raises(AlreadyRunning, match=rf"worked on by {newest(cluster, 'late').app_id}"):
        submit(another, declared)
    app_id = wait_for("its application", lambda: newest(cluster, "late").app_id)
    see_ended(cluster, "late")
    assert not containers(app_id)
    staging = rig.folder / "staging"
    left = [path for path in staging.rglob("application_*") if path.name == app_id]
    assert left == []


def _with_epoch(record: Record) -> Record:
    epoch = record.epoch + 1
    history = (*record.history, Submission(epoch, record.submitted_at, "manual"))
    return replace(record, epoch=epoch, gone=epoch, gone_by="somebody", history=history)


def test_without_a_resource_manager_a_driver_is_never_taken_for_ended(
    cluster: YarnCluster, rig: Rig
) -> None:
    declared = stream("alone")
    see_to(cluster, declared)
    before = newest(cluster, "alone")
    rig.kill_manager()
    assert cluster.capacity() is None
    # Its agent answers, so it runs.
    assert newest(cluster, "alone").state is DriverState.RUNNING
    with pytest.raises(AlreadyRunning, match="'alone' is running already"):
        submit(cluster, declared)
    # One that remembers nothing has the nodes end what it does not know.
    rig.start_manager()
    wait_for("its containers to end", lambda: not containers(before.app_id))
    lost = wait_for(
        "it to be unknown",
        lambda: (d := newest(cluster, "alone")).state is DriverState.UNKNOWN and d,
    )
    with pytest.raises(AlreadyRunning, match="run the job declare_gone"):
        submit(cluster, declared)
    with cluster.lease("alone", "test", wait=HANGS) as lease:
        assert cluster.declare_gone(lost, lease, "somebody").state is DriverState.FAILED
    assert submit(cluster, declared).epoch == before.epoch + 1
    assert stop(cluster, "alone", graceful=False).state is DriverState.STOPPED


def test_what_lies_in_another_file_system_is_removed_by_hadoop(
    cluster: YarnCluster, tmp_path: Path
) -> None:
    folder = tmp_path / "application_1_1"
    folder.mkdir()
    (folder / "a file").touch()
    client = cluster._client()
    assert client.remove(str(folder)) is None and not folder.exists()
    assert client.remove(str(folder)) is None  # there is none
    assert "No FileSystem for scheme" in str(client.remove("nosuch://host/folder"))
