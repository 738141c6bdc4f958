"""State partitions are changed by tracked runs on a real cluster, and nothing is counted twice."""

import os
import signal
import threading
from pathlib import Path
from typing import Any

import dagster as dg
import pyspark
import pytest

from dagster_sparkscale import ClusterManager, State, StructuredStream
from dagster_sparkscale.driver.state.reporting import HOLD_AT
from tests.driver.state.counted import PROGRAM, Counting
from tests.e2e.deployment import Deployment, deployed, failure, told
from tests.e2e.test_faults import driver_process
from tests.releases import CHANGES_STATE, has
from tests.waiting import HANGS, wait_for

pytestmark = pytest.mark.spark


def counted(
    name: str, folder: Path, go_on: Path, partitions: int = 4, **state: Any
) -> StructuredStream:
    return StructuredStream(
        name=name,
        program=str(PROGRAM),
        arguments=(str(folder),),
        batch_interval="1s",
        executor_memory="512m",
        driver_memory="512m",
        checkpoint_location=str(folder / "checkpoint"),
        spark_conf={"spark.cores.max": "1"},  # or Standalone would launch all it can
        # The driver that changes the state waits, once it has rewritten it, for that file.
        env={HOLD_AT: f"verifying={go_on}"},
        state=State(
            key_groups=16, partitions=partitions, maintenance="0 3 * * *", within=HANGS, **state
        ),
    )


def count(d: Deployment, counting: Counting, partitions: int) -> None:
    """New lines are counted right with all before, in that many partitions."""
    counting.feed()
    wait_for("all to be counted", lambda: counting.right, about=lambda: d.cluster.logs(d.driver()))

    def has() -> bool:
        status = d.status()
        return bool(
            status
            and status.queries
            and (state := status.queries[0].state)
            and (state.partitions, state.key_groups) == (partitions, 16)
        )

    wait_for(f"{partitions} partitions to be told", has, about=lambda: str(d.status()))


def window(d: Deployment) -> Any:
    """What the schedule asks for, in the window."""
    schedule = d.defs.resolve_schedule_def(f"maintain_{d.stream.name}")
    with dg.build_schedule_context(instance=d.instance, resources=d.defs.resources) as context:
        return schedule.evaluate_tick(context)


def declared_with(d: Deployment, go_on: Path, partitions: int) -> Deployment:
    """The same stream, of which now so many partitions are declared."""
    (home := d.folder / f"declared-{partitions}").mkdir()
    return Deployment(d.cluster, counted(d.stream.name, d.folder, go_on, partitions), home)


@CHANGES_STATE
def test_a_change_by_hand_is_undone_after_a_kill_and_the_window_makes_it(
    local_cluster: ClusterManager, tmp_path: Path
) -> None:
    go_on, counting = tmp_path / "go on", Counting(tmp_path)
    with deployed(local_cluster, counted("counted", tmp_path, go_on), tmp_path) as d:
        told(d.materialize())
        count(d, counting, 4)
        first = d.driver().epoch
        assert "nothing to do" in str(window(d).skip_message)

        plan = told(d.run("reconfigure_state", partitions=16, dry_run=True))
        [of_query] = plan["queries"]
        assert (of_query["partitions_before"], of_query["partitions_after"]) == (4, 16)
        assert (of_query["rows"], plan["ending"]) == (40, "dry run")
        assert (plan["way"], plan["why_a_restart"]) == ("in place", None)
        assert "must divide 16" in failure(d.run("reconfigure_state", partitions=5))
        assert d.driver().epoch == first, "nothing was stopped"

        # Killed in the middle: the run has it undone, and says so.
        was = counting.files()
        killing = threading.Thread(target=kill_while_it_verifies, args=(d,))
        killing.start()
        why = failure(d.run("reconfigure_state", partitions=8))
        killing.join(HANGS)
        assert "undone" in why and "in the middle of it" in why
        now = counting.files()
        assert {name: now.get(name) for name in was} == was
        count(d, counting, 4)

        # The window gives it what is declared, unless that has just gone wrong.
        skipped = str(window(declared_with(d, go_on, 8)).skip_message)
        assert "the last try, to 8 partitions, was undone" in skipped
        go_on.touch()
        d, second = declared_with(d, go_on, 16), d.driver().epoch
        [request] = window(d).run_requests
        changed(told(d.requested(request)), after=16)
        count(d, counting, 16)
        assert d.driver().epoch == second, "it was changed in place"
        assert "nothing to do" in str(window(d).skip_message)
        assert told(d.run("reconfigure_state", partitions=16))["ending"] == "nothing to do"


@CHANGES_STATE
@pytest.mark.clusters
def test_a_change_by_hand_and_by_a_restart_holds_until_the_window(
    local_cluster: ClusterManager, tmp_path: Path
) -> None:
    (go_on := tmp_path / "go on").touch()
    counting = Counting(tmp_path)
    stream = counted("recounted", tmp_path, go_on, standstill="restart")
    with deployed(local_cluster, stream, tmp_path) as d:
        told(d.materialize())
        count(d, counting, 4)
        story = told(d.run("reconfigure_state", partitions=16, reason="more cores"))
        changed(story, after=16)
        assert story["queries"][0]["way"] == "restart" and d.driver().epoch == 2
        count(d, counting, 16)
        again = told(d.run("reconfigure_state", partitions=16))
        assert again["ending"] == "nothing to do"
        [request] = window(d).run_requests
        assert told(d.requested(request))["queries"][0]["partitions_after"] == 4
        count(d, counting, 4)
        assert "nothing to do" in str(window(d).skip_message)


@pytest.mark.skipif(has("4.2"), reason="this Spark changes them")
def test_a_spark_that_can_t_change_partitions_is_named_before_anything_is_stopped(
    local_cluster: ClusterManager, tmp_path: Path
) -> None:
    go_on, counting = tmp_path / "go on", Counting(tmp_path)
    with deployed(local_cluster, counted("uncounted", tmp_path, go_on), tmp_path) as d:
        told(d.materialize())
        count(d, counting, 4)
        driver = d.driver()
        why = (
            "changing the partitions of state needs Spark 4.2 or newer; this is Spark "
            f"{pyspark.__version__}"
        )
        assert why in failure(d.run("reconfigure_state", partitions=16, dry_run=True))
        assert why in failure(d.run("reconfigure_state", partitions=16))
        assert why in str(window(declared_with(d, go_on, 16)).skip_message)
        assert d.driver() == driver, "nothing was stopped"
        count(d, counting, 4)


def changed(story: dict[str, Any], after: int) -> None:
    """The one query, of 40 keys, has so many partitions now, and all of its rows."""
    [result] = story["queries"]
    assert (result["outcome"], result["partitions_before"]) == ("changed", 4)
    assert result["rows"] == 40 == sum(result["rows_per_partition_after"])
    assert len(result["rows_per_partition_after"]) == result["partitions_after"] == after
    assert len(result["rows_per_key_group"]) == 16


def kill_while_it_verifies(d: Deployment) -> None:
    def verifying() -> bool:
        status = d.status()
        return bool(status and status.reconfiguring and status.reconfiguring.step == "verifying")

    wait_for("the driver to verify", verifying)
    os.kill(driver_process(d).pid, signal.SIGKILL)
