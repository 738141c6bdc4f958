"""What the contract does for every cluster manager by itself."""

from dataclasses import replace

import pytest

from dagster_sparkscale.clusters.agents.change import SetExecutors
from dagster_sparkscale.clusters.errors import AgentUnreachable, LeaseLost, StaleEpoch
from tests.fakes import driver, scaled, structured
from tests.in_memory.cluster import World


def test_an_operation_on_a_driver_that_another_has_followed_is_void():
    world = World()
    first = world.run(scaled()).driver
    world.end("clicks")
    second = world.run(scaled()).driver
    with pytest.raises(StaleEpoch, match="'clicks' is at epoch 2; the driver of epoch 1 is gone"):
        world.cluster.change(first, SetExecutors(3))
    assert world.cluster.newest_record(second).epoch == 2
    assert world.cluster.change(second, SetExecutors(3)).requested == 3


def test_so_is_one_on_a_driver_that_nobody_remembers():
    with pytest.raises(StaleEpoch, match="'clicks' is at epoch 0; the driver of epoch 1 is gone"):
        World().cluster.change(driver(), SetExecutors(3))


def test_the_history_of_a_stream_that_was_never_started_is_empty():
    world = World()
    assert world.cluster.history("clicks") == ()
    world.run(scaled())
    assert [submission.epoch for submission in world.cluster.history("clicks")] == [1]


def test_what_was_asked_for_is_remembered_for_the_next_driver():
    world = World()
    kept = world.run(structured(executors=3), executors=2)
    assert world.records["clicks"].executors == 3
    with world.cluster.lease("clicks", "rescale run") as lease:
        world.cluster.change(kept.driver, SetExecutors(7), lease=lease)
        assert world.records["clicks"].executors == 7
        # Also where no answer came: the driver may have died of it.
        kept.reachable = False
        with pytest.raises(AgentUnreachable):
            world.cluster.change(kept.driver, SetExecutors(9), lease=lease)
    assert world.records["clicks"].executors == 9


def test_who_has_lost_the_lease_changes_nothing_of_what_is_remembered():
    world = World()
    driver = world.run(structured(), executors=2).driver
    with world.cluster.lease("clicks", "held up") as lease:
        record = world.records["clicks"]
        later = replace(record, lease=None, executors=5, revision=record.revision + 1)
        world.records["clicks"] = later
        with pytest.raises(LeaseLost):
            world.cluster.change(driver, SetExecutors(9), lease=lease)
    assert world.records["clicks"] == later
    assert not any(call.startswith("scale") for call in world.calls)
