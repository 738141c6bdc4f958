"""A real driver changes the state of its queries before they start, or says why it does not."""

import shutil
from pathlib import Path

import pyspark
import pytest

from dagster_sparkscale.driver.settings import KEY_GROUPS
from dagster_sparkscale.driver.state import layout
from dagster_sparkscale.driver.state.plans import StatePlan
from tests.driver.running import local_driver
from tests.driver.state.drivers import BEGIN, GROUPS, Drivers, ask, the_one
from tests.releases import CHANGES_STATE, has

pytestmark = [pytest.mark.spark, pytest.mark.clusters]

QUERIES = ("clicks", "orders", "old")


@CHANGES_STATE
def test_each_query_is_changed_by_itself_or_left_as_it_was(tmp_path):
    """One history of five drivers. `old` has state that can't be changed."""
    drivers = Drivers(local_driver, tmp_path, *QUERIES)
    one_that_is_new_is_left(drivers)
    was = {name: query.files() for name, query in drivers.queries.items()}
    key_groups_that_are_declared_otherwise_are_refused(drivers)
    unchanged(drivers, was, *drivers.queries)
    a_state_that_is_not_as_it_was_is_put_back(drivers, tmp_path / "go on")
    unchanged(drivers, was, *drivers.queries)
    one_is_changed_by_itself(drivers)
    unchanged(drivers, was, "clicks", "old")
    of_all_those_are_changed_that_can_be(drivers)
    unchanged(drivers, was, "old")


def unchanged(drivers: Drivers, was: dict[str, dict[str, bytes]], *names: str) -> None:
    """All files that were in the checkpoints of these queries are as they were."""
    for name in names:
        query = drivers.queries[name]
        now = query.files()
        assert {file: now[file] for file in was[name]} == was[name], name
        assert query.partitions() == BEGIN, name


def one_that_is_new_is_left(drivers: Drivers) -> None:
    plan = StatePlan("early", 8, GROUPS, queries=("old",))
    with drivers.started(plan, providers={"old": layout.HDFS}) as driver:
        report = the_one(drivers.count(driver))
        assert report.outcome == "refused" and "has not run a batch yet" in (report.reason or "")
        told = driver.wait(
            lambda s: all(q.state and q.state.key_groups == GROUPS for q in s.queries),
            "key groups to be remembered",
        )
        assert {(q.name, q.state and q.state.partitions) for q in told.queries} == {
            (name, BEGIN) for name in drivers.queries
        }
        drivers.end(driver)


def key_groups_that_are_declared_otherwise_are_refused(drivers: Drivers) -> None:
    with drivers.started(
        StatePlan("other", 8, 32, queries=QUERIES), settings={KEY_GROUPS: "32"}
    ) as driver:
        status = drivers.count(driver)
        assert [each.query for each in status.reconfigurations] == list(drivers.queries)
        for report in status.reconfigurations:
            assert report.outcome == "refused" and "has 16 key groups" in (report.reason or "")
        for query in status.queries:
            state = query.state
            assert state is not None and state.key_groups == GROUPS and state.note is not None
            assert "Declare 16, or begin with a new checkpoint" in state.note
        providers = {query.name: query.state and query.state.provider for query in status.queries}
        assert providers == {
            **dict.fromkeys(("clicks", "orders"), "RocksDBStateStoreProvider"),
            "old": "HDFSBackedStateStoreProvider",  # that of its checkpoint
        }
        drivers.end(driver)


def a_state_that_is_not_as_it_was_is_put_back(drivers: Drivers, go_on: Path) -> None:
    """What Spark wrote is spoiled while the driver waits: a partition has the rows of another."""
    plan, orders = StatePlan("spoiled", 8, GROUPS, queries=("orders",)), drivers.queries["orders"]
    with drivers.started(plan, hold_at=f"verifying={go_on}") as driver:
        driver.wait(lambda s: s.reconfiguring and s.reconfiguring.step == "verifying", "the step")
        state = orders.checkpoint / "state" / "0"
        [written] = (state / "5").glob("*.zip")  # a new partition has nothing else
        for name in (written.name, f".{written.name}.crc"):
            shutil.copyfile(state / "5" / name, state / "0" / name)
        shutil.copytree(state / "5" / "SSTs", state / "0" / "SSTs", dirs_exist_ok=True)
        go_on.touch()
        report = the_one(drivers.count(driver))
        assert (report.query, report.outcome) == ("orders", "undone"), report
        assert report.reason is not None and "the new state is not the same" in report.reason
        drivers.end(driver)


def one_is_changed_by_itself(drivers: Drivers) -> None:
    with drivers.started(StatePlan("one", 8, GROUPS, queries=("orders",))) as driver:
        report = the_one(drivers.count(driver))
        assert (report.query, report.outcome, report.before, report.after) == (
            *("orders", "changed", BEGIN, 8),
        )
        assert report.group_rows is not None and sum(report.group_rows) == report.rows
        drivers.end(driver)
    assert drivers.queries["orders"].partitions() == 8


def of_all_those_are_changed_that_can_be(drivers: Drivers) -> None:
    with drivers.started(StatePlan("all", 8, GROUPS, queries=QUERIES)) as driver:
        clicks, orders, old = drivers.count(driver).reconfigurations
        assert (clicks.outcome, orders.outcome, old.outcome) == ("changed", "unchanged", "refused")
        assert "only those of RocksDBStateStoreProvider" in (old.reason or "")
        drivers.end(driver)
    assert [each.partitions() for each in drivers.queries.values()] == [8, 8, BEGIN]


@pytest.mark.skipif(has("4.2"), reason="this Spark changes them")
def test_a_spark_that_can_t_change_partitions_is_named_and_the_query_counts_on(tmp_path):
    plan = StatePlan("from 4 to 16", 16, GROUPS, queries=("counts",))
    drivers = Drivers(local_driver, tmp_path)
    with drivers.started() as driver:
        drivers.count(driver)
        answer = ask(driver, plan)
        why = f"in place: its Spark is {pyspark.__version__}, and it takes 4.2 or newer"
        assert (answer.status_code, answer.json()["error"]) == (400, why)
        drivers.count(driver)
        drivers.end(driver)
    with drivers.started(plan) as driver:
        report = the_one(drivers.count(driver))
        assert (report.outcome, report.reason) == (
            "refused",
            "changing the partitions of state needs Spark 4.2 or newer; this is Spark "
            f"{pyspark.__version__}",
        )
        assert drivers.counting.partitions() == BEGIN
        drivers.end(driver)
