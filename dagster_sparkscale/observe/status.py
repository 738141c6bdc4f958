"""What a driver's agent reports, as immutable values. Pure: no Dagster, no Spark, no I/O.

The agent's JSON is read here and nowhere else. A field that the agent could not measure is None
all the way: nothing here turns a missing metric into a zero.
"""

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_LARGEST = 2**63


class MalformedStatus(ValueError):
    """The agent answered something that is not a status."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One completed batch; or, with `processing_ms` 0, triggers that found no data."""

    query: str
    completed_at: float
    """Seconds since the epoch, by the driver's clock."""
    processing_ms: int
    scheduling_ms: int | None = None
    records: int | None = None
    failed: bool = False
    """A failed output operation, or a query that died in this batch."""
    triggers: int = 1
    """How many triggers this stands for; above 1 only where triggers found no data."""
    batch_id: int | None = None
    behind_ms: int | None = None
    """How far behind the tip of its source the query was; None where the source does not tell."""


@dataclass(frozen=True, slots=True)
class Query:
    """A Structured Streaming query, or the one graph of a DStreams application."""

    name: str
    active: bool
    interval_ms: int | None = None
    """The batch duration that the running program really has; None where Spark does not tell."""
    running_ms: int | None = None
    """Age of the batch being processed now; None when there is none."""
    pending_batches: int | None = None
    backlog_records: int | None = None
    error: str | None = None
    behind_ms: int | None = None
    """How far behind the tip of its source it is, by time; of the source that is furthest behind.
    None where no source tells, as for the two below."""
    source_shards: int | None = None
    """Shards (partitions of the sources) that are being read at present."""
    source_lost: int | None = None
    """How many times data was gone before it could be read, in all."""


@dataclass(frozen=True, slots=True)
class Executor:
    id: str
    host: str
    cores: int
    active_tasks: int = 0
    receivers: int = 0


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
    rates: Mapping[str, Mapping[str, int | float]] | None = field(default=None, hash=False)
    """The live limits of sources in force, by source and limit; None where the agent has none."""

    @property
    def source_shards(self) -> int | None:
        """Shards that the active queries are reading; None where no source tells."""
        told = [q.source_shards for q in self.queries if q.active and q.source_shards is not None]
        return sum(told) if told else None

    @classmethod
    def from_json(cls, answer: Any) -> "Status":
        """Read an agent's answer.

        Unknown fields are passed over, so that an agent may be newer than this side.

        Raises:
            MalformedStatus: a field is missing or not of its type; the text names it.
        """
        if not isinstance(answer, Mapping):
            raise MalformedStatus(f"the answer must be a JSON object, not {type(answer).__name__}")
        spark = _mapping(answer, "spark")
        return cls(
            stream=_get(answer, "stream", str),
            epoch=_get(answer, "epoch", int),
            phase=_get(answer, "phase", str),
            now=_get(answer, "now", float),
            started_at=_get(answer, "started_at", float),
            app_id=_maybe(answer, "app_id", str),
            ui_url=_maybe(answer, "ui_url", str),
            spark_age=_maybe(spark, "age", float),
            registered=_maybe(spark, "registered", int),
            requested=_maybe(spark, "requested", int),
            removing=_maybe(spark, "removing", int) or 0,
            blocked=_maybe(spark, "blocked", str),
            executors=tuple(
                Executor(
                    id=_get(item, "id", str),
                    host=_get(item, "host", str),
                    cores=_get(item, "cores", int),
                    active_tasks=_maybe(item, "active_tasks", int) or 0,
                    receivers=_maybe(item, "receivers", int) or 0,
                )
                for item in _items(spark, "executors")
            ),
            queries=tuple(
                Query(
                    name=_get(item, "name", str),
                    active=_get(item, "active", bool),
                    interval_ms=_maybe(item, "interval_ms", int),
                    running_ms=_maybe(item, "running_ms", int),
                    pending_batches=_maybe(item, "pending_batches", int),
                    backlog_records=_maybe(item, "backlog_records", int),
                    error=_maybe(item, "error", str),
                    behind_ms=_maybe(item, "behind_ms", int),
                    source_shards=_maybe(item, "source_shards", int),
                    source_lost=_maybe(item, "source_lost", int),
                )
                for item in _items(answer, "queries")
            ),
            batches=tuple(
                Batch(
                    query=_get(item, "query", str),
                    completed_at=_get(item, "completed_at", float),
                    processing_ms=_get(item, "processing_ms", int),
                    scheduling_ms=_maybe(item, "scheduling_ms", int),
                    records=_maybe(item, "records", int),
                    failed=_maybe(item, "failed", bool) or False,
                    triggers=_maybe(item, "triggers", int) or 1,
                    batch_id=_maybe(item, "batch_id", int),
                    behind_ms=_maybe(item, "behind_ms", int),
                )
                for item in _items(answer, "batches")
            ),
            last_seq=_get(answer, "last_seq", int),
            rates=_rates(answer),
        )


def _maybe(data: Mapping[str, Any], name: str, kind: type) -> Any:
    value = data.get(name)
    if value is None:
        return None
    if kind is float and type(value) is int and abs(value) < _LARGEST:
        return float(value)
    if type(value) is not kind:
        raise MalformedStatus(f"{name} = {reprlib.repr(value)}: must be {kind.__name__}")
    # JSON as Python reads it has numbers that no later arithmetic survives.
    if kind in (int, float) and not _is_number(value):
        raise MalformedStatus(f"{name} = {reprlib.repr(value)}: must be a number of 64 bits")
    return value


def _get(data: Mapping[str, Any], name: str, kind: type) -> Any:
    value = _maybe(data, name, kind)
    if value is None:
        raise MalformedStatus(f"{name}: missing")
    return value


def _rates(answer: Mapping[str, Any]) -> Mapping[str, Mapping[str, int | float]] | None:
    if answer.get("rates") is None:
        return None
    rates = _mapping(answer, "rates")
    for limits in rates.values():
        if not isinstance(limits, Mapping) or not all(_is_number(v) for v in limits.values()):
            raise MalformedStatus(
                f"rates = {reprlib.repr(rates)}: must be an object with the limits of each source"
            )
    return rates


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < _LARGEST  # NaN is not, either


def _mapping(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = data.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise MalformedStatus(f"{name} = {reprlib.repr(value)}: must be an object")
    return value


def _items(data: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    value = data.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
        raise MalformedStatus(f"{name}: must be a list of objects")
    return value
