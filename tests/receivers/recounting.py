"""Changes of the number of receivers, on a cluster in memory."""

from typing import Any

from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.observe.status import Executor, Receiver
from dagster_sparkscale.receivers.recount import Recounted, RecountRequest, recount
from tests.in_memory.cluster import World
from tests.in_memory.driver import Kept
from tests.receivers.streams import counting
from tests.requesting import requester_of

STREAM = counting()
NUMBER, GENERATION = "spark.sparkscale.receivers", "spark.sparkscale.receivers.generation"


def carry_out(
    world: World,
    receivers: int,
    lines: list[str] | None = None,
    stream: Any = STREAM,
    **asked: Any,
) -> Recounted:
    asked = {"tell": ([] if lines is None else lines).append, "wait": 0.05, **asked}
    requester = requester_of(asked)
    return recount(world.cluster, stream, RecountRequest(receivers, **asked), requester)


def record(world: World) -> Record:
    return world.records["clicks"]


def causes(world: World) -> list[str]:
    return [each.cause for each in record(world).history]


def number_and_generation(world: World) -> tuple[int | None, int]:
    return record(world).receivers, record(world).receivers_generation


def starts_its_receivers(kept: Kept) -> None:
    """A program that takes its number as it should."""
    number = int(kept.settings.get(NUMBER, 2))
    kept.registered = kept.requested
    kept.executors = (Executor("0", "host", 4), Executor("1", "host", 4))
    kept.receivers = tuple(Receiver(id, executor=str(id % 2)) for id in range(number))
