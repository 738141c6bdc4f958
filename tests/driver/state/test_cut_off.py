"""Drivers that change the state of their query, and that are killed in the middle of it; as
`tests/e2e/test_state.py` has it by a tracked run. At each step: `soak_cut_off`."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from dagster_sparkscale.driver.state.layout import COPIES
from dagster_sparkscale.driver.state.plans import StatePlan
from tests.driver.running import Cluster
from tests.driver.state.drivers import BEGIN, BESIDE, GROUPS, Drivers, the_one
from tests.releases import CHANGES_STATE

pytestmark = [pytest.mark.spark, pytest.mark.clusters, CHANGES_STATE]


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


def cut_off_in_place(cluster: Cluster, folder: Path, step: str) -> None:
    """Kill a driver that changes its state in place, at `step`; the next one has the old state or
    the new, and counts on."""
    drivers = Drivers(cluster.driver, folder)
    plan = StatePlan("from 4 to 16", 16, GROUPS, queries=("counts",))
    if step == "undoing":  # only what was cut off before it gets there
        drivers.killed_in_place_at("verifying", plan)
        drivers.killed_at(step)
    else:
        drivers.killed_in_place_at(step, plan)
    kept = step in ("closing", "starting")
    with drivers.started() as driver:
        status = drivers.count(driver)
        (query,) = status.queries
        if step in ("verifying", "rewriting", "undoing", "closing"):
            report = the_one(status)
            assert report.outcome == ("changed" if kept else "undone"), report
            assert (report.id, report.before, report.after) == (plan.id, BEGIN, 16)
        else:
            assert status.reconfigurations == ()
        assert (query.state.last is not None) == (step not in BEFORE), step
        drivers.end(driver)
    assert drivers.counting.partitions() == (16 if kept else BEGIN)
    with drivers.started() as driver:
        assert drivers.count(driver).reconfigurations == ()
        drivers.end(driver)


def cut_off_beside(cluster: Cluster, folder: Path, step: str) -> None:
    """Kill a driver that changes its state beside the stream, at `step`; the next one has the old
    state or the new, no copy, and counts on."""
    drivers = Drivers(partial(cluster.driver, most=2), folder)
    plan = StatePlan("from 4 to 16", 16, GROUPS, queries=("counts",))
    more = {"executors": 2} if step == "adding executors" else {}
    drivers.killed_in_place_at(step, plan, {**BESIDE, **more})
    checkpoint = drivers.counting.place / "checkpoint"
    copies = checkpoint / COPIES
    assert copies.exists() == (step not in ("preparing", "adding executors", "copying"))
    kept = step in ("closing", "starting")
    with drivers.started() as driver:
        status = drivers.count(driver)
        if step in ("replaying", "comparing changes", "moving in", "accepting", "closing"):
            report = the_one(status)
            assert report.outcome == ("changed" if kept else "undone"), report
        else:
            assert status.reconfigurations == ()
        assert status.requested == 1
        assert not copies.exists()
        drivers.end(driver)
    assert drivers.counting.partitions() == (16 if kept else BEGIN)
    if not kept:
        assert {each.name for each in (checkpoint / "state" / "0").iterdir()} == {
            *map(str, range(BEGIN)),
            "_metadata",
        }
    with drivers.started() as driver:
        assert drivers.count(driver).reconfigurations == ()
        drivers.end(driver)


BEFORE = ("preparing", "ending", "checking", "measuring", "writing down")
"""Steps before anything is touched."""


def test_a_change_in_place_that_was_written_and_not_verified_is_undone(cluster, tmp_path):
    cut_off_in_place(cluster, tmp_path, "verifying")


def test_a_change_beside_the_stream_that_was_not_verified_is_undone(cluster, tmp_path):
    cut_off_beside(cluster, tmp_path, "accepting")
