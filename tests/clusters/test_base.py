"""What the contract does for every cluster manager by itself."""

import pytest

from dagster_sparkscale.clusters.errors import StaleEpoch
from tests.fakes import World, driver, scaled


def test_an_operation_on_a_driver_that_another_has_followed_is_void():
    world = World()
    first = world.run(scaled()).driver
    world.end("clicks")
    second = world.run(scaled()).driver
    with pytest.raises(StaleEpoch, match="'clicks' is at epoch 2; the driver of epoch 1 is gone"):
        world.cluster.scale(first, 3)
    assert world.cluster.newest_record(second).epoch == 2
    assert world.cluster.scale(second, 3).requested == 3


def test_so_is_one_on_a_driver_that_nobody_remembers():
    with pytest.raises(StaleEpoch, match="'clicks' is at epoch 0; the driver of epoch 1 is gone"):
        World().cluster.scale(driver(), 3)


def test_the_history_of_a_stream_that_was_never_started_is_empty():
    world = World()
    assert world.cluster.history("clicks") == ()
    world.run(scaled())
    assert [submission.epoch for submission in world.cluster.history("clicks")] == [1]
