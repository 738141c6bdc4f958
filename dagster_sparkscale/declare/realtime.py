"""What a user declares of real-time queries: the task slots that they need at once. Pure.

In real-time mode (`.trigger(realTime="5 minutes")`, Spark 4.1 and later) the stages of a batch run
all at once, for as long as the batch lasts. Spark 4.3 fails a query with a shuffle whose tasks do
not all fit into free slots; one without a shuffle does not read the partitions that find no slot.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from dagster_sparkscale.declare.declaration import Count, Declaration, Seconds
from dagster_sparkscale.declare.part import Drift, Part, StreamOfParts
from dagster_sparkscale.driver.settings import REALTIME_SLOTS, REALTIME_WAIT

LONGEST_WAIT = 86400.0
"""Seconds that a query may wait for its slots at most."""


class RealTime(Declaration, Part):
    """The real-time queries of a stream, which need a task slot for each of their tasks at once."""

    reserved: ClassVar[Mapping[str, str]] = {
        REALTIME_SLOTS: "realtime.slots",
        REALTIME_WAIT: "realtime.wait",
    }
    drifts: ClassVar[Mapping[str, Drift]] = {
        "realtime.slots": Drift(absent="none"),
        "realtime.wait": Drift(absent="none"),
    }

    slots: Count
    """Task slots that all real-time queries of the stream need at once: for each query the
    partitions of its source, and for each of its shuffles `spark.sql.shuffle.partitions`. Spark
    says the number of a query that it refuses."""

    wait: Annotated[Seconds, Field(le=LONGEST_WAIT)] = 300.0
    """Seconds that the driver waits, before it starts a query, until executors with so many slots
    have registered."""

    def least_executors(self, stream: StreamOfParts, pinned: int) -> int:
        return executors_for(self.slots + pinned, stream.tasks_at_a_time)

    def needs(self, stream: StreamOfParts) -> tuple[int, str]:
        each = stream.tasks_at_a_time
        return executors_for(self.slots + stream.pinned, each), why(self.slots, each)

    def why_so_many(self, stream: StreamOfParts) -> str:
        return f": {why(self.slots, stream.tasks_at_a_time)} (realtime.slots)"

    def check(self, stream: StreamOfParts) -> None:
        needed = self.least_executors(stream, stream.pinned)
        declared = stream.autoscale.min_executors if stream.autoscale is not None else None
        if declared is not None and declared < needed:
            raise ValueError(
                f"autoscale.min_executors = {declared}: must be at least {needed}, or not be "
                f"given{self.why_so_many(stream)}"
            )

    def settings(self, stream: StreamOfParts) -> dict[str, str]:
        return {REALTIME_SLOTS: str(self.slots), REALTIME_WAIT: f"{self.wait:g}"}

    def declared(self, stream: StreamOfParts) -> dict[str, str]:
        return {"realtime.slots": str(self.slots), "realtime.wait": f"{self.wait:g}"}


def executors_for(slots: int, tasks_at_a_time: int) -> int:
    """Fewest executors that have so many task slots."""
    return -(-slots // tasks_at_a_time)


def why(slots: int, tasks_at_a_time: int) -> str:
    """Say why a stream can't run on fewer executors than have `slots`."""
    return (
        f"its real-time queries need {_counted(slots, 'task slot')} at once, and an executor has "
        f"{tasks_at_a_time}"
    )


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
