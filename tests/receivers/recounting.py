"""Changes of the number of receivers, on a cluster in memory."""

from collections.abc import Callable
from typing import Any

from dagster_sparkscale.clusters.records.overtaking import Holder
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.observe.status import Executor, Receiver
from dagster_sparkscale.receivers.recount import Request, Story, recount
from tests.in_memory.cluster import World
from tests.in_memory.driver import Kept
from tests.receivers.streams import counting

STREAM = counting()
NUMBER, GENERATION = "spark.sparkscale.receivers", "spark.sparkscale.receivers.generation"


def carry_out(
    world: World,
    receivers: int,
    lines: list[str] | None = None,
    stream: Any = STREAM,
    tell: Callable[[str], None] | None = None,
    lease_wait: float = 60.0,
    holder: Holder = "the test",
    **asked: Any,
) -> Story:
    tell = tell or ([] if lines is None else lines).append
    request = Request("clicks", receivers, **{"wait": 0.05, **asked})
    return recount(world.cluster, stream, request, holder=holder, tell=tell, lease_wait=lease_wait)


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
