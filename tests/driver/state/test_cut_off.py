"""Drivers that change the state of their query, and that are killed in the middle of it; as
`tests/e2e/test_state.py` has it by a tracked run."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from dagster_sparkscale.driver.state.plans import StatePlan
from tests.driver.running import Cluster
from tests.driver.state.drivers import BEGIN, GROUPS, Drivers, the_one

pytestmark = [pytest.mark.spark, pytest.mark.clusters]


def cut_off(
    cluster: Cluster, folder: Path, step: str, settings: Mapping[str, str] | None = None
) -> None:
    """Kill a driver at `step`; the next one has the old state, or the new, and counts on."""
    drivers = Drivers(cluster.driver, folder, settings=settings)
    counting = drivers.counting
    with drivers.started() as driver:
        drivers.count(driver)
        drivers.end(driver)
    was = counting.files()
    plan = StatePlan("from 4 to 16", 16, GROUPS, queries=("counts",))
    if step == "undoing":  # only what was cut off before it gets there
        drivers.killed_at("verifying", plan)
        drivers.killed_at(step)
    else:
        drivers.killed_at(step, plan)
    kept = step in ("closing", "over")
    with drivers.started() as driver:
        status = drivers.count(driver)
        if step in ("checking", "measuring", "writing down"):
            assert status.reconfigurations == ()
        else:
            report = the_one(status)
            assert report.outcome == ("changed" if kept else "undone"), report
            assert (report.id, report.before, report.after) == (plan.id, BEGIN, 16)
        drivers.end(driver)
    now = counting.files()
    assert counting.partitions() == (16 if kept else BEGIN)
    assert {name: now[name] for name in was} == was
    with drivers.started() as driver:
        assert drivers.count(driver).reconfigurations == ()
        drivers.end(driver)


def test_a_change_that_was_written_and_not_verified_is_undone(cluster, tmp_path):
    cut_off(cluster, tmp_path, "verifying")
