"""Streams with receivers, on a cluster in memory."""

from collections.abc import Sequence
from typing import Any

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.declare.receivers import ReceiverCount, ReceiverPolicy
from dagster_sparkscale.declare.streams import DStream
from dagster_sparkscale.driver.settings import WRITE_AHEAD_LOG
from dagster_sparkscale.observe.status import Executor, Receiver
from tests.fakes import dstream
from tests.in_memory.cluster import World
from tests.in_memory.driver import Kept
from tests.watch.deployment import grown


def receiving(receivers: int = 5, **fields: Any) -> DStream:
    """A stream with receivers, on executors of four cores."""
    policy = ReceiverPolicy(removal="fitting", **fields.pop("policy", {}))
    given = {"executor_cores": 4, "autoscale": RatioPolicy(max_executors=8), **fields}
    return dstream(receivers=receivers, receiver_policy=policy, **given)


def counting(receivers: int = 2, capacity: float | None = 100.0, **fields: Any) -> DStream:
    """One whose number of receivers may change."""
    count = {"maximum": 6, "capacity": capacity, **fields.pop("count", {})}
    conf = {WRITE_AHEAD_LOG: "true"}
    return receiving(
        receivers,
        policy={"count": ReceiverCount(**count)},
        checkpoint_location="/c",
        spark_conf=conf,
        **fields,
    )


def on(counts: Sequence[int]) -> tuple[tuple[Executor, ...], tuple[Receiver, ...]]:
    """So many receivers on executors 0, 1, ... of four cores."""
    executors = tuple(
        Executor(str(n), "host", 4, active_tasks=count, receivers=count)
        for n, count in enumerate(counts)
    )
    places = [str(n) for n, count in enumerate(counts) for _ in range(count)]
    receivers = tuple(
        Receiver(id, "SocketReceiver", place, "host", since=1.0) for id, place in enumerate(places)
    )
    return executors, receivers


def spread_over(world: World, stream: DStream, counts: Sequence[int], **fields: Any) -> Kept:
    """A driver of `stream` that has run for long, with its receivers on these executors."""
    executors, receivers = on(counts)
    kept = grown(world.run(stream, len(counts), receivers=receivers, **fields))
    kept.executors = executors
    return kept
