"""The whole chain against a real cluster, and what it does when things break."""

import os
import re
import signal
import threading
from pathlib import Path
from typing import Any

import dagster as dg
import psutil
import pytest
from dagster._core.definitions.sensor_definition import SensorExecutionData

from dagster_sparkscale import (
    ClusterManager,
    LocalCluster,
    RatioPolicy,
    RecoveryPolicy,
    StructuredStream,
)
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.markdown import carried
from dagster_sparkscale.names import MINUTES
from dagster_sparkscale.observe.minutes import Minute, restored
from dagster_sparkscale.watch.memory import Memory
from tests.clusters.running import executors
from tests.e2e.deployment import (
    PROGRAMS,
    deployed,
    failure,
    paced_stream,
    told,
    wait_for_request,
)
from tests.waiting import HANGS, wait_for

pytestmark = pytest.mark.spark


def test_a_stream_is_started_attached_to_scaled_by_sensor_and_hand_killed_and_stopped(
    local_cluster: ClusterManager, tmp_path: Path
) -> None:
    with deployed(local_cluster, paced_stream("spine", tmp_path), tmp_path) as d:
        started = told(d.materialize())
        assert started["action"] == "started"
        first = d.driver()
        assert first.state is DriverState.RUNNING
        wait_for("one executor", lambda: d.registered() == 1)

        # Materializing again attaches, from a resource that knows nothing of the first.
        assert told(d.materialize())["action"] == "attached"
        assert d.driver().epoch == first.epoch

        # Overload: the batch of 2 s takes 3.2 s, R is 1.6, and one tick asks for one run. No calm
        # batch may be in the window any more.
        d.pace(3.2)
        wait_for("two batches that took 3.2 s", lambda: d.all_took(2, 3.2))
        tick = wait_for_request(d, "rescale")
        [request] = tick.run_requests or []
        assert request.tags["dagster-sparkscale/stream"] == "spine"
        story = told(d.requested(request))
        assert story["ending"] == "reached", story
        assert (story["executors_before"], story["executors_after"]) == (1, 3)
        assert "at or above 0.9" in story["reason"]
        wait_for("all three to be told of", lambda: d.registered() == 3)

        # Pinned: R is still high, the maximum is reached, the check says so.
        wait_for("the check to fail", lambda: failed_check(d.tick(), "below_maximum"), every=1)

        # Calm: one executor goes.
        d.pace(0.1)
        tick = wait_for_request(d, "rescale")
        story = told(d.requested((tick.run_requests or [])[0]))
        assert (story["ending"], story["executors_after"]) == ("reached", 2), story

        # By hand, relative to what is registered.
        story = told(d.run("rescale", delta=1, reason="the newsletter goes out"))
        assert (story["executors_before"], story["executors_after"]) == (2, 3)
        assert story["reason"] == "the newsletter goes out"
        assert "target = 9" in failure(d.run("rescale", target=9))
        assert "give one" in failure(d.run("rescale", target=1, delta=1))

        # Killed, it is started anew by a tracked run, with the executors that it had.
        os.kill(driver_process(d).pid, signal.SIGKILL)
        wait_for("the failure", lambda: d.driver().state is DriverState.FAILED)
        [request] = wait_for_request(d, "restart").run_requests or []
        assert told(d.requested(request))["action"] == "started"
        assert told(d.materialize())["action"] == "attached"
        assert d.driver().epoch == first.epoch + 1
        wait_for("three executors", lambda: d.registered() == 3)

        # Stopped, it stays stopped: the sensor leaves it alone.
        assert told(d.run("stop", reason="enough"))["state"] == "stopped"
        tick = d.tick()
        assert not tick.run_requests
        assert "stopped on request" in str(tick.skip_message)
        assert "is stopped" in failure(d.run("rescale", target=2))


@pytest.mark.clusters
def test_a_program_that_crashes_at_start_shows_its_last_lines_and_its_crash_loop_ends(
    local_cluster: ClusterManager, tmp_path: Path
) -> None:
    stream = StructuredStream(
        name="crasher",
        program=str(PROGRAMS / "crash.py"),
        batch_interval=2,
        executor_memory="512m",
        spark_conf={"spark.cores.max": "1"},
        recovery=RecoveryPolicy(first_delay=0.1, limit=2),
    )
    with deployed(local_cluster, stream, tmp_path) as d:
        assert "no such topic" in failure(d.materialize())
        for _ in range(2):
            [request] = wait_for_request(d, "restart").run_requests or []
            assert "no such topic" in failure(d.requested(request))
        tick = d.tick()
        assert not tick.run_requests
        assert "giving up" in str(tick.skip_message)


@pytest.mark.clusters
def test_a_target_above_what_the_cluster_has_says_how_many_came(
    local_cluster: ClusterManager, tmp_path: Path
) -> None:
    # No maximum: nothing but the cluster's own 32 cores limits it.
    stream = paced_stream("greedy", tmp_path, executor_cores=6, autoscale=RatioPolicy(interval=10))
    with deployed(local_cluster, stream, tmp_path) as d:
        told(d.materialize())
        assert told(d.run("rescale", target=2, wait_seconds=HANGS))["ending"] == "reached"
        story = told(d.run("rescale", target=5, wait_seconds=5))
        assert story["ending"] == "short"
        assert story["executors_missing"] == 5 - story["executors_after"] > 0
        assert "have not come yet" in story["notes"] and "cores" in story["notes"]


# A maximum, as Spark starts all that the cluster has room for where there is none.
TWO = RatioPolicy(interval=10, min_executors=2, max_executors=2)


@pytest.mark.clusters
def test_all_executors_killed_come_back_and_an_unreachable_agent_holds(
    local_cluster: LocalCluster, tmp_path: Path
) -> None:
    stream = paced_stream("battered", tmp_path, autoscale=TWO)
    with deployed(local_cluster, stream, tmp_path) as d:
        told(d.materialize())
        wait_for("two executors", lambda: d.registered() == 2)
        victims = executors(local_cluster.state_dir, d.driver().app_id)
        assert len(victims) == 2
        before = wait_for("its word", d.status)
        known = {e.id for e in before.executors}  # type: ignore[union-attr]
        for victim in victims:
            victim.kill()
        wait_for(
            "two new executors",
            lambda: (
                (s := d.status()) is not None
                and s.registered == 2
                and not known & {e.id for e in s.executors}
            ),
        )

        python = driver_process(d)
        python.suspend()
        try:
            # Each thread stops when it next runs, and until then the agent may answer.
            wait_for("all its threads to stand still", lambda: stands_still(python))
            tick = d.tick()
            assert not tick.run_requests
            assert "battered: hold:" in str(tick.skip_message)
            assert failed_check(tick, "running")
            seen = Memory.load(tick.cursor).of("battered").minutes or minutes_told(tick)
            assert seen[-1].registered is None and seen[-1].ratio is None
        finally:
            python.resume()
        wait_for("two executors", lambda: d.registered() == 2)


@pytest.mark.clusters
def test_two_starts_at_once_start_one_driver_that_killed_is_restarted_by_a_tracked_run(
    local_cluster: ClusterManager, tmp_path: Path
) -> None:
    with deployed(local_cluster, paced_stream("at_once", tmp_path), tmp_path) as d:
        results: list[dg.ExecuteInProcessResult] = []
        threads = [
            threading.Thread(target=lambda: results.append(d.materialize())) for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(told(result)["action"] for result in results) == ["attached", "started"]
        assert [s.epoch for s in d.cluster.history("at_once")] == [1]

        with d.cluster.lease("at_once", "somebody else"):
            assert "somebody else has held 'at_once'" in failure(d.run("rescale", target=2))

        # Killed, it goes on from the same checkpoint.
        before = d.driver()
        python = driver_process(d)
        os.kill(python.pid, signal.SIGKILL)
        wait_for("the failure", lambda: d.driver().state is DriverState.FAILED)

        tick = wait_for_request(d, "restart")
        assert failed_check(tick, "running") or "failed" in str(tick.cursor)
        [request] = tick.run_requests or []
        restarted = told(d.requested(request))
        assert restarted["action"] == "started"
        assert d.driver().epoch == before.epoch + 1
        # The same run once more, as after a daemon that died between request and record: void.
        assert told(d.requested(request))["action"] == "attached"
        assert d.driver().epoch == before.epoch + 1
        # A decision made for the old driver is refused.
        assert "void" in failure(d.run("rescale", target=2, epoch=before.epoch))


@pytest.mark.clusters
def test_a_program_that_never_starts_a_query_is_held_and_reported(
    local_cluster: ClusterManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dagster_sparkscale.watch.health.STARTUP_GRACE", 0.0)
    monkeypatch.setattr("dagster_sparkscale.lifecycle.reconcile.START_WAIT", 10.0)
    stream = StructuredStream(
        name="idler",
        program=str(PROGRAMS / "idle.py"),
        batch_interval=2,
        executor_memory="512m",
        autoscale=RatioPolicy(interval=10, max_executors=1),
    )
    with deployed(local_cluster, stream, tmp_path) as d:
        assert told(d.materialize())["state"] == "running"
        ticks: list[SensorExecutionData] = []
        wait_for(
            "a tick that says so",
            lambda: (
                ticks.append(d.tick())
                or "has not started a query yet" in str(ticks[-1].skip_message)
            ),
            every=1,
        )
        assert any(failed_check(tick, "batches_completing") for tick in ticks)


def failed_check(tick: SensorExecutionData, name: str) -> bool:
    return any(
        isinstance(event, dg.AssetCheckEvaluation) and event.check_name == name and not event.passed
        for event in tick.asset_events
    )


def minutes_told(tick: SensorExecutionData) -> list[Minute]:
    [event] = [event for event in tick.asset_events if event.metadata and MINUTES in event.metadata]
    return restored(carried(event.metadata[MINUTES].value))


def stands_still(process: psutil.Process) -> bool:
    try:
        stats = [task.read_text() for task in Path(f"/proc/{process.pid}/task").glob("*/stat")]
    except OSError:
        return False  # a thread has ended meanwhile
    return bool(stats) and all(stat.rsplit(")", 1)[1].split()[0] == "T" for stat in stats)


def driver_process(d: Any) -> psutil.Process:
    """The Python process of the stream's driver."""
    pid = re.match(r"process (\d+) on", d.driver().where)
    assert pid is not None
    return psutil.Process(int(pid[1]))
