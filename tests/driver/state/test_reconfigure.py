"""A real driver changes the state of its queries before they start, or says why it does not."""

import shutil

import pytest

from dagster_sparkscale.driver.state import layout
from dagster_sparkscale.driver.state.plans import Plan
from dagster_sparkscale.driver.wire import KEY_GROUPS
from tests.driver.state.drivers import BEGIN, GROUPS, Drivers, the_one

pytestmark = pytest.mark.spark


def test_of_two_queries_each_is_changed_by_itself(cluster, tmp_path):
    drivers = Drivers(cluster, tmp_path, "clicks", "orders")
    with drivers.started() as driver:
        drivers.count(driver)
        told = driver.wait(
            lambda s: all(q.state and q.state.key_groups == GROUPS for q in s.queries),
            "key groups to be remembered",
        )
        assert {(q.name, q.state and q.state.partitions) for q in told.queries} == {
            ("clicks", BEGIN),
            ("orders", BEGIN),
        }
        drivers.end(driver)
    with drivers.started(Plan("one", 8, GROUPS, query="orders")) as driver:
        report = the_one(drivers.count(driver))
        assert (report.query, report.outcome, report.before, report.after) == (
            *("orders", "changed", BEGIN, 8),
        )
        assert report.group_rows is not None and sum(report.group_rows) == report.rows
        drivers.end(driver)
    assert [each.partitions() for each in drivers.queries.values()] == [BEGIN, 8]
    with drivers.started(Plan("both", 8, GROUPS)) as driver:
        clicks, orders = drivers.count(driver).reconfigurations
        assert (clicks.outcome, orders.outcome) == ("changed", "unchanged")
        drivers.end(driver)


def test_what_can_t_be_changed_is_left_and_the_query_runs(cluster, tmp_path):
    drivers = Drivers(cluster, tmp_path)
    hdfs = {layout.PROVIDER: layout.HDFS}
    with drivers.started(Plan("early", 8, GROUPS, query="counts"), settings=hdfs) as driver:
        report = the_one(drivers.count(driver))
        assert report.outcome == "refused" and "has not run a batch yet" in (report.reason or "")
        drivers.end(driver)
    was = drivers.counting.files()
    plan = Plan("other", 8, 32)
    with drivers.started(plan, settings={KEY_GROUPS: "32"}) as driver:
        status = drivers.count(driver)
        report = the_one(status)
        assert report.outcome == "refused" and "has 16 key groups" in (report.reason or "")
        state = status.queries[0].state
        assert state is not None and state.key_groups == GROUPS
        assert state.note is not None and "Declare 16, or begin with a new checkpoint" in state.note
        assert state.provider == "HDFSBackedStateStoreProvider", "that of its checkpoint"
        drivers.end(driver)
    with drivers.started(Plan("hdfs", 8, GROUPS)) as driver:
        report = the_one(drivers.count(driver))
        assert report.outcome == "refused"
        assert "only of RocksDBStateStoreProvider" in (report.reason or "")
        drivers.end(driver)
    now = drivers.counting.files()
    assert {name: now[name] for name in was} == was


def test_a_state_that_is_not_as_it_was_is_put_back(cluster, tmp_path):
    """What Spark wrote is spoiled while the driver waits: a partition has the rows of another."""
    drivers = Drivers(cluster, tmp_path)
    with drivers.started() as driver:
        drivers.count(driver)
        drivers.end(driver)
    was = drivers.counting.files()
    go_on = tmp_path / "go on"
    held = f"verifying={go_on}"
    with drivers.started(Plan("spoiled", 8, GROUPS), hold_at=held) as driver:
        driver.wait(lambda s: s.reconfiguring and s.reconfiguring.step == "verifying", "the step")
        state = drivers.counting.checkpoint / "state" / "0"
        [written] = (state / "5").glob("*.zip")  # a new partition has nothing else
        for name in (written.name, f".{written.name}.crc"):
            shutil.copyfile(state / "5" / name, state / "0" / name)
        shutil.copytree(state / "5" / "SSTs", state / "0" / "SSTs", dirs_exist_ok=True)
        go_on.touch()
        report = the_one(drivers.count(driver))
        assert report.outcome == "undone", report
        assert report.reason is not None and "the new state is not the same" in report.reason
        assert drivers.counting.partitions() == BEGIN
        drivers.end(driver)
    now = drivers.counting.files()
    assert {name: now[name] for name in was} == was
