"""What a sensor keeps for as long as its process lives."""

import gc

import pytest

from dagster_sparkscale.watch import process
from tests.fakes import scaled
from tests.watch.deployment import Deployment


@pytest.fixture
def spared():
    """How many objects the collector of garbage passes over, since the test has begun."""
    gc.unfreeze()
    yield gc.get_freeze_count
    gc.unfreeze()


@pytest.mark.parametrize("streams", [2, 1])
def test_what_a_large_sensor_keeps_is_spared_once_most_of_it_is_there(spared, streams, monkeypatch):
    monkeypatch.setattr(process, "MANY", 2)
    deployed = Deployment([scaled(f"s{number}") for number in range(streams)])
    counts = []
    for _ in range(process.SETTLED + 2):
        deployed.tick()
        counts.append(spared())
    before, after = counts[: process.SETTLED - 1], counts[process.SETTLED - 1 :]
    assert set(before) == {0}
    assert all(count > 0 for count in after) == (streams == 2)
    assert after == sorted(after, reverse=True), "some go, and no more come"


@pytest.mark.parametrize(("before", "after"), [(700, process.YOUNG), (0, 0), (10**6, 10**6)])
def test_new_objects_are_looked_through_less_often_unless_that_is_off_or_seldom(
    spared, before, after
):
    others = gc.get_threshold()
    gc.set_threshold(before)
    try:
        process._spare_what_stays()
        assert gc.get_threshold()[0] == after
    finally:
        gc.set_threshold(*others)
