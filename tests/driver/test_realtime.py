"""Queries in real-time mode on real Spark: they wait for the slots of all their tasks."""

from pathlib import Path

import pytest

from dagster_sparkscale.driver.settings import KEY_GROUPS, PLAN, REALTIME_SLOTS, REALTIME_WAIT
from dagster_sparkscale.driver.state.plans import StatePlan
from dagster_sparkscale.observe.end_report import Slots
from tests.driver.conftest import PROGRAMS
from tests.driver.running import Cluster, end_report, local_driver, stop_report
from tests.releases import has

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not has("4.3"), reason="before Spark 4.3 no real-time query has a shuffle"),
]

PROGRAM = PROGRAMS / "realtime.py"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
STATE = {
    "spark.sql.shuffle.partitions": 4,
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.streaming.stateStore.checkpointFormatVersion": 2,
}
"""Two partitions of the source and four of the state: six tasks at once."""


@pytest.mark.clusters
def test_a_query_waits_for_its_slots_and_then_runs_on_them(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Spark would refuse it: it asks for no slot that is not free at once."""
    declared = {**STATE, REALTIME_SLOTS: 6, REALTIME_WAIT: 300, "spark.executor.cores": 3}
    with cluster.driver(
        tmp_path, PROGRAM, str(tmp_path), "keyed", initial=1, most=2, settings=declared
    ) as driver:
        seen = driver.wait(lambda s: s.waits_for_slots and s.registered == 1, "it waits")
        assert "query 'live' waits for task slots before it starts" in seen.waits_for_slots
        seen = driver.wait(lambda s: "3 of 6" in (s.waits_for_slots or ""), "three are there")
        assert not seen.queries
        driver.scale(2)
        seen = driver.wait(lambda s: s.batches and s.batches[-1].records, "a batch with rows")
        assert seen.waits_for_slots is None
        assert [(q.name, q.trigger, q.active) for q in seen.queries] == [
            ("live", "real time", True)
        ]
        driver.stop()
        assert driver.exit_code() == 0
        (query,) = stop_report(driver).queries
        assert query.drained and query.batch_id is not None


@pytest.mark.clusters
def test_what_spark_refuses_is_told_in_numbers(tmp_path: Path) -> None:
    one = {**STATE, "spark.master": "local[1]"}
    with local_driver(tmp_path, PROGRAM, str(tmp_path), "keyed", settings=one) as driver:
        assert driver.exit_code() == 1
        report = end_report(driver)
        assert report.slots == Slots(needed=6, free=1, registered=1)
        assert "CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT" in (report.raised or "")


@pytest.mark.clusters
def test_slots_that_do_not_come_end_it_before_its_query_has_begun(tmp_path: Path) -> None:
    one = {**STATE, "spark.master": "local[1]", REALTIME_SLOTS: 6, REALTIME_WAIT: 2}
    with local_driver(tmp_path, PROGRAM, str(tmp_path), "keyed", settings=one) as driver:
        assert driver.exit_code() == 1
        report = end_report(driver)
        assert report.slots == Slots(needed=6, free=1, registered=1, declared=True)
        assert report.raised == (
            "NotEnoughSlots: query 'live' was not started: real-time queries need 6 task slots at "
            "once (realtime.slots), and 1 registered within 2 s (realtime.wait)"
        )
        assert not (tmp_path / "checkpoint").exists()


@pytest.mark.clusters
def test_a_stop_ends_the_wait(tmp_path: Path) -> None:
    one = {**STATE, "spark.master": "local[1]", REALTIME_SLOTS: 6, REALTIME_WAIT: 3600}
    with local_driver(tmp_path, PROGRAM, str(tmp_path), "keyed", settings=one) as driver:
        driver.wait(lambda s: s.waits_for_slots, "it waits")
        driver.stop()
        assert driver.exit_code() == 0


@pytest.mark.clusters
@pytest.mark.parametrize("asynchronous", ["true", "false"])
def test_a_batch_that_is_cut_is_told_though_both_logs_end_with_the_same(
    tmp_path: Path, asynchronous: str
) -> None:
    """What a batch in real-time mode has read is in the offset log only when it has ended."""
    settings = {"spark.master": "local[3]"}
    arguments = ("plain", "trigger=10 seconds", f"asyncProgressTrackingEnabled={asynchronous}")
    with local_driver(tmp_path, PROGRAM, str(tmp_path), *arguments, settings=settings) as driver:
        driver.wait(lambda s: s.batches, "a batch is done, and the next one is in progress")
        driver.stop(timeout=1)
        driver.exit_code()
        (query,) = stop_report(driver).queries
        assert (query.drained, query.repeats) == (False, False)
        logs = [max(map(int, numbers(tmp_path, log))) for log in ("offsets", "commits")]
        assert logs == [query.batch_id, query.batch_id]


def numbers(folder: Path, log: str) -> list[str]:
    """The batches in a log of the checkpoint."""
    return [each.name for each in (folder / "checkpoint" / log).iterdir() if each.name.isdigit()]


AGGREGATION = (
    "operator 0 is an aggregation that was begun in real-time mode: Spark can't read or change its "
    "state, in any mode"
)


@pytest.mark.clusters
@pytest.mark.parametrize(("kind", "reason"), [("keyed", None), ("counted", AGGREGATION)])
def test_the_state_of_a_real_time_query_is_changed_but_not_an_aggregation_s(
    tmp_path: Path, kind: str, reason: str | None
) -> None:
    plan = StatePlan("down", partitions=2, key_groups=4, queries=("live",))
    settings = {**STATE, "spark.master": "local[6]", KEY_GROUPS: 4}
    for number, more in enumerate([{}, {PLAN: plan.to_json()}]):
        folder = tmp_path / f"driver-{number}"
        with local_driver(
            folder, PROGRAM, str(tmp_path), kind, settings={**settings, **more}
        ) as driver:
            seen = driver.wait(lambda s: s.batches and s.batches[-1].records, "a batch with rows")
            driver.stop()
            assert driver.exit_code() == 0
            (query,) = stop_report(driver).queries
            assert query.drained
    (change,) = seen.reconfigurations or ()
    assert (change.outcome, change.reason) == ("refused" if reason else "changed", reason), change
    (live,) = seen.queries
    assert live.state is not None and live.state.partitions == (4 if reason else 2)
