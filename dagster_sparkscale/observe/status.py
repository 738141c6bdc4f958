"""What a driver's agent reports, as immutable values. Pure: no Dagster, no Spark, no I/O.

The agent's JSON (`driver/wire.py`) is read here and nowhere else. A field that the agent could not
measure is None all the way: nothing here turns a missing metric into a zero.
"""

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter

from dagster_sparkscale.driver.wire import (
    Answer,
    Batch,
    Executor,
    Limit,
    Query,
    QueryState,
    Receiver,
    Reconfiguration,
    Relaunch,
)
from dagster_sparkscale.typed_json import Malformed, read

__all__ = [
    "Batch",
    "Executor",
    "Limit",
    "MalformedStatus",
    "Query",
    "QueryState",
    "Receiver",
    "Reconfiguration",
    "Relaunch",
    "Status",
]

_ANSWER = TypeAdapter(Answer)
_LARGEST = 2**63


class MalformedStatus(ValueError):
    """The agent answered something that is not a status."""


@dataclass(frozen=True, slots=True)
class Status:
    """What an agent said when it was asked."""

    stream: str
    epoch: int
    phase: str
    """`starting`, `running`, `stopping` or `ended`."""
    now: float
    """The driver's clock when it answered, seconds since the epoch."""
    started_at: float
    app_id: str | None = None
    ui_url: str | None = None
    spark_age: float | None = None
    """Seconds since the agent last had an answer from Spark itself; None before the first."""
    registered: int | None = None
    requested: int | None = None
    removing: int = 0
    """Executors told to leave that have not left yet. They still count as registered."""
    blocked: str | None = None
    """Why a scale-down can't go on, such as executors that hold receivers; None if nothing is."""
    executors: tuple[Executor, ...] = ()
    queries: tuple[Query, ...] = ()
    batches: tuple[Batch, ...] = field(default=(), repr=False)
    last_seq: int = 0
    """Number of batches the agent has ever recorded; pass it as `since` to get only newer ones."""
    dropped_at: float | None = None
    """When the last batch completed that the agent does not keep any more; None: it keeps all."""
    rates: Mapping[str, Mapping[str, int | float]] | None = field(default=None, hash=False)
    """The live limits that are set, by source and limit; what is in force is in `limits`. None
    where the agent has none."""
    operation: int | None = None
    """The highest number of an operation that has asked the agent for a change."""
    spark_version: str | None = None
    missing: tuple[str, ...] = ()
    """What can't be told or done, as that Spark lacks what it needs; each for people."""
    ages: Mapping[str, float | None] | None = field(default=None, hash=False)
    """Seconds since the agent last saw each part of Spark: `executors`, `receivers`, `dstreams`,
    `queries`; None for one it has not seen yet."""
    limits: tuple[Limit, ...] = ()
    """What limits the sources that are known to take live limits."""
    receivers: tuple[Receiver, ...] | None = None
    """By stream id; empty: the program has none. None: that can't be told."""
    relaunches: tuple[Relaunch, ...] = ()
    """Receivers that were away from where they ran, of this driver: the latest, oldest first."""
    reconfigurations: tuple[Reconfiguration, ...] = field(default=(), hash=False)
    """What the driver has changed of the state of its queries, or is changing, in order."""
    tells_state: bool = True
    """Whether it tells what its queries keep: not where it was started by an older release."""

    @property
    def reconfiguring(self) -> Reconfiguration | None:
        """The change of a query's state that is in progress; None: none is."""
        return next((each for each in self.reconfigurations if each.outcome is None), None)

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
            MalformedStatus: it is no JSON, or a field is missing or not of its type; the text
                names it.
        """
        try:
            answer = read(_ANSWER, text)
        except Malformed as error:
            raise MalformedStatus(str(error)) from None
        spark = answer.spark
        return cls(
            stream=answer.stream,
            epoch=answer.epoch,
            phase=answer.phase,
            now=answer.now,
            started_at=answer.started_at,
            app_id=answer.app_id,
            ui_url=answer.ui_url,
            spark_age=spark.age,
            registered=spark.registered,
            requested=spark.requested,
            removing=spark.removing,
            blocked=spark.blocked,
            executors=spark.executors,
            queries=answer.queries,
            batches=answer.batches,
            last_seq=answer.last_seq,
            dropped_at=answer.dropped_at,
            rates=_checked(answer.rates),
            operation=answer.operation,
            spark_version=answer.spark_version,
            missing=answer.missing,
            ages=answer.ages,
            limits=answer.limits,
            receivers=answer.receivers,
            relaunches=answer.relaunches,
            reconfigurations=answer.reconfigurations or (),
            tells_state=answer.reconfigurations is not None,
        )


def _checked(rates: Mapping[str, Any] | None) -> Mapping[str, Mapping[str, int | float]] | None:
    for limits in rates.values() if rates else ():
        if not isinstance(limits, Mapping) or not all(map(_is_number, limits.values())):
            raise MalformedStatus(
                f"rates = {reprlib.repr(rates)}: must be an object with the limits of each source"
            )
    return rates


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < _LARGEST  # NaN is not, either
