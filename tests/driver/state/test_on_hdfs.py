"""A query whose checkpoint is on a real HDFS: its state is changed there, and put back there."""

from collections.abc import Iterator

import pytest

from dagster_sparkscale.driver.state.plans import StatePlan
from dev.hdfs.rig import Address, tethered
from tests.driver.state.drivers import BEGIN, GROUPS, Drivers

pytestmark = [pytest.mark.spark, pytest.mark.hdfs]

AFTER = 8


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    with tethered(tmp_path_factory.mktemp("hdfs") / "rig") as address:
        yield address


def test_a_change_that_was_cut_off_is_undone_and_done_again(cluster, tmp_path, hdfs):
    drivers = Drivers(cluster.driver, tmp_path, hdfs=hdfs)
    counting = drivers.counting
    with drivers.started() as driver:
        drivers.count(driver)
        drivers.end(driver)
    was = counting.files()
    assert counting.partitions() == BEGIN

    drivers.killed_at("verifying", StatePlan("first", AFTER, GROUPS, queries=("counts",)))
    assert counting.partitions() == AFTER and was.keys() < counting.files().keys()

    go_on = tmp_path / "go on"
    second = StatePlan("second", AFTER, GROUPS, queries=("counts",))
    with drivers.started(second, hold_at=f"measuring={go_on}") as driver:
        status = driver.wait(
            lambda s: s.reconfiguring and s.reconfiguring.step == "measuring", "the second change"
        )
        assert [(each.id, each.outcome) for each in status.reconfigurations] == [
            ("first", "undone"),
            ("second", None),
        ]
        assert counting.files() == was
        go_on.touch()
        report = drivers.count(driver).reconfigurations[-1]
        assert (report.id, report.outcome, report.before, report.after) == (
            *("second", "changed", BEGIN, AFTER),
        )
        drivers.end(driver)
    now = counting.files()
    assert counting.partitions() == AFTER
    assert {name: now[name] for name in was} == was
