"""A rescale that was decided for a driver that has ended since: nothing to do, and no fault."""

import pytest

from dagster_sparkscale.autoscale.rescale import RescaleRequest, rescale
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import AgentUnreachable, Overtaken
from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.clusters.requests import Refused
from tests.fakes import scaled
from tests.in_memory.cluster import World

STREAM = scaled(min_executors=1, max_executors=20)


def decided(world: World, target: int = 3) -> None:
    request = RescaleRequest("clicks", target=target, wait=0)
    rescale(world.cluster, STREAM, request, Requester("rescale run 1", epoch=1, decided=True))


def scaled_to(world: World) -> list[str]:
    return [call for call in world.calls if call.startswith("scale")]


@pytest.mark.parametrize(
    ("state", "again", "why"),
    [
        (DriverState.FAILED, False, "decided for driver 1, which has failed since"),
        (DriverState.STOPPED, False, "decided for driver 1, which has stopped since"),
        (DriverState.FAILED, True, "decided for driver 1, and driver 2 has come after it"),
    ],
)
def test_one_that_has_ended_before_the_run_began(world, state, again, why):
    world.run(STREAM)
    world.end("clicks", state)
    if again:
        world.run(STREAM)
    with pytest.raises(Overtaken, match=f"^{why}$"):
        decided(world)
    assert scaled_to(world) == [] and not world.leases


def test_one_that_ends_under_the_hands_of_the_run(world):
    world.run(STREAM)
    world.on_look = lambda kept: world.end("clicks")
    with pytest.raises(Overtaken, match="which has failed since"):
        decided(world)


def test_one_of_which_nothing_is_known_any_more(world):
    with pytest.raises(Overtaken, match="of which nothing is known any more"):
        decided(world)


def test_one_that_runs_is_refused_for_what_any_other_is(world):
    kept = world.run(STREAM, reachable=False)
    with pytest.raises(AgentUnreachable, match="does not answer"):
        decided(world)
    kept.reachable = True
    with pytest.raises(Refused, match="maximum of 20"):
        decided(world, target=21)
    decided(world)
    assert scaled_to(world) == ["scale clicks 3"]
