"""Moves of receivers, on a cluster in memory."""

from typing import Any

from dagster_sparkscale.receivers.rebalance import Rebalanced, RebalanceRequest, rebalance
from tests.in_memory.cluster import World
from tests.in_memory.driver import arrive
from tests.receivers.streams import receiving, spread_over
from tests.requesting import requester_of

STREAM = receiving()


def carry_out(
    world: World, stream: Any = STREAM, lines: list[str] | None = None, **asked: Any
) -> Rebalanced:
    asked = {"tell": ([] if lines is None else lines).append, "wait": 0.05, **asked}
    requester = requester_of(asked)
    return rebalance(world.cluster, stream, RebalanceRequest(**asked), requester)


def moved(world: World) -> list[str]:
    return [call for call in world.calls if call.startswith("move")]


def three_executors() -> World:
    """Three executors with [3, 2, 0] receivers; each that is sent arrives at the next look."""
    world = World(on_look=arrive)
    spread_over(world, STREAM, (3, 2, 0))
    return world
