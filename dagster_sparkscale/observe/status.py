"""What a driver's agent reports, as immutable values. Pure: no Dagster, no Spark, no I/O.

The agent's JSON (`driver/wire.py`) is read here and nowhere else. A field that the agent could not
measure is None all the way: nothing here turns a missing metric into a zero.
"""

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from dagster_sparkscale.driver.wire import (
    LARGEST,
    Answer,
    Batch,
    Executor,
    ExecutorTimes,
    Limit,
    Query,
    QueryState,
    Receiver,
    Reconfiguration,
    Relaunch,
    Spark,
    StageTimes,
    TaskTimes,
    Totals,
)
from dagster_sparkscale.typed_json import Malformed, read

__all__ = [
    "Batch",
    "Executor",
    "ExecutorTimes",
    "Limit",
    "MalformedStatus",
    "Query",
    "QueryState",
    "Receiver",
    "Reconfiguration",
    "Relaunch",
    "Spark",
    "StageTimes",
    "Status",
    "TaskTimes",
    "Totals",
]


class MalformedStatus(ValueError):
    """The agent answered something that is not a status."""


@dataclass(frozen=True, slots=True)
class Status(Answer):
    """What an agent said when it was asked: its answer, and what follows from that."""

    @property
    def spark_age(self) -> float | None:
        """Seconds since the agent last had an answer from Spark itself; None before the first."""
        return self.spark.age

    @property
    def registered(self) -> int | None:
        """Executors that have registered with the driver."""
        return self.spark.registered

    @property
    def requested(self) -> int | None:
        """Executors that the cluster manager was asked for."""
        return self.spark.requested

    @property
    def removing(self) -> int:
        """Executors that are leaving; they still count as registered."""
        return self.spark.removing

    @property
    def blocked(self) -> str | None:
        """Why a scale-down can't go on; None: nothing is in its way."""
        return self.spark.blocked

    @property
    def executors(self) -> tuple[Executor, ...]:
        """The executors that have registered."""
        return self.spark.executors

    @property
    def tells_state(self) -> bool:
        """Whether the driver reports what its queries keep: one of an older release does not."""
        return self.reconfigurations is not None

    @property
    def state_changes(self) -> tuple[Reconfiguration, ...]:
        """What the driver has changed of the state of its queries, or is changing, in order."""
        return self.reconfigurations or ()

    @property
    def reconfiguring(self) -> Reconfiguration | None:
        """The change of a query's state that is in progress; None: none is."""
        return next((each for each in self.state_changes if each.outcome is None), None)

    @property
    def source_shards(self) -> int | None:
        """Shards that the active queries are reading together; None as soon as one of them does
        not tell: there is work for more executors than the others' shards keep busy."""
        total: int | None = None
        for query in self.queries:
            if query.active:
                if query.source_shards is None:
                    return None
                total = (total or 0) + query.source_shards
        return total

    @classmethod
    def from_json(cls, text: bytes | str) -> "Status":
        """Read an agent's answer.

        Unknown fields are passed over, so that an agent may be newer than this side.

        Raises:
            MalformedStatus: the text is no JSON, or a field is missing or has another type; the
                error names it.
        """
        try:
            status = read(_STATUS, text)
        except Malformed as error:
            raise MalformedStatus(str(error)) from None
        _check_rates(status.rates)
        return status


_STATUS = TypeAdapter(Status)


def _check_rates(rates: Mapping[str, Any] | None) -> None:
    for limits in rates.values() if rates else ():
        if not isinstance(limits, Mapping) or not all(map(_is_number, limits.values())):
            raise MalformedStatus(
                f"rates = {reprlib.repr(rates)}: must be an object with the limits of each source"
            )


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < LARGEST  # NaN is not, either
