"""Limits of a stream that are changed by a person, on a cluster in memory, without Dagster."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dagster_sparkscale.backpressure.apply import Applied
from dagster_sparkscale.backpressure.preflight import look
from dagster_sparkscale.backpressure.retune import retune
from dagster_sparkscale.clusters.records.store import Record
from tests.backpressure.retuning import KNOB, policed, read_once
from tests.in_memory.cluster import World
from tests.requesting import requester_of

STREAM = read_once()
LIVE = policed(initial_rate=450, max_rate=5000)


def running() -> World:
    """The stream runs, and each of its drivers completes a batch."""
    world = World(on_submit=lambda kept: setattr(kept, "batch_seconds", 1.0))
    world.run(STREAM)
    return world


def carry_out(
    world: World,
    stream: Any = STREAM,
    values: dict[str, float] | None = None,
    tell: Callable[[str], None] = lambda line: None,
    meanwhile: Callable[[], Any] = lambda: None,
    **asked: Any,
) -> Applied:
    """What a person asks for; `meanwhile` happens once it was looked at."""
    requester = requester_of({"tell": tell, **asked}, "run 1")
    values = {KNOB: 9000.0} if values is None else values
    looked = look(world.cluster, stream, requester, [], values, now=time.time())
    meanwhile()
    return retune(world.cluster, stream, looked, requester, now=time.time())


def record(world: World) -> Record:
    return world.records["clicks"]


def settings(world: World) -> dict[str, str] | None:
    """What is tuned."""
    tuning = record(world).tuning
    return None if tuning is None else dict(tuning.settings)


def causes(world: World) -> list[str]:
    return [each.cause for each in record(world).history]


def write(world: World, **fields: Any) -> None:
    """Somebody else changes what is remembered."""
    with world.cluster.lease("clicks", "somebody") as lease:
        lease.write(replace(lease.record, **fields))
