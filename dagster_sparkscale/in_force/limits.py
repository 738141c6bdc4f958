"""The limits in force of a stream: each number, who set it, since when and until when. Pure.

    declared    by the declaration, until that changes
    tuned       by a retuning, until the declaration of its group changes or it is put back
    person      by hand: as tuned; or, while the stream runs, until somebody takes it away

What the driver estimates, batch by batch, is in its status alone, which says so (`Limit.by`).
The record and the declaration say different numbers as soon as one is tuned or set. So whoever
decides by a limit, shows it or changes it asks here, and reads neither by itself.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

from dagster_sparkscale.clusters.base import Driver
from dagster_sparkscale.clusters.records.store import Record, Tuning
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.drift import until_restart
from dagster_sparkscale.declare.limits import SourceLimits, StreamingLimits
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.declare.streams import DStream, StructuredStream
from dagster_sparkscale.driver.backpressure.plan import BadEstimatorPlan, plan_of
from dagster_sparkscale.driver.live_limits import EVERY
from dagster_sparkscale.driver.settings import BACKPRESSURE, SOURCE_OPTIONS
from dagster_sparkscale.durations import parse_duration
from dagster_sparkscale.in_force import receiver_counts, slots
from dagster_sparkscale.in_force.steering import Steering, bounded
from dagster_sparkscale.in_force.tuned import MAX_RATE_LIVE, declared_limits, without
from dagster_sparkscale.in_force.tuned import in_force as settings_in_force
from dagster_sparkscale.observe.evaluation import PERSON, Evaluation
from dagster_sparkscale.observe.status import Status

By = Literal["declared", "tuned", "person"]

MAX_RECORDS_LIVE = "maxRecordsPerTrigger"
MAX_OFFSETS = "maxOffsetsPerTrigger"
MIN_OFFSETS = "minOffsetsPerTrigger"
MAX_DELAY = "maxTriggerDelay"
POLICY = "backpressure."
INITIAL_RATE = f"{POLICY}initial_rate"
MIN_RATE = f"{POLICY}min_rate"
MAX_RATE = f"{POLICY}max_rate"
RATES = (INITIAL_RATE, MIN_RATE, MAX_RATE)
RECEIVER_INITIAL = StreamingLimits.spark_settings["initial_rate"]
RECEIVER_MAX = StreamingLimits.spark_settings["max_rate"]
OPTIONS = {name: field for field, name in SourceLimits.spark_options.items()}
"""The field of `SourceLimits` for each option of a source."""
STREAMING = {RECEIVER_INITIAL: "initial_rate", RECEIVER_MAX: "max_rate"}
"""The field of `StreamingLimits` for each Spark setting that is worth tuning."""


@dataclass(frozen=True)
class LimitInForce:
    """One limit of a stream, as a start has it now; a live one as its driver has it."""

    name: str
    """The limit's name in `retune_backpressure`; for a live limit its source: `receiver-0`, `*`."""
    value: float | None
    """None: there is no limit."""
    by: By = "declared"
    who: str = ""
    """The person or run that set it: `retune_backpressure run 1a2b3c4d`; empty: the declaration, or
    not known."""
    since: float | None = None
    """Seconds since the epoch; None: not known, as of what is declared."""
    until: str = "another is declared"
    """What ends it, for people."""
    records: float | None = None
    """The records of a batch, where a live limit counts these."""

    @property
    def number(self) -> str:
        """What it is, for people; empty: no limit."""
        value = [] if self.value is None else [f"{self.value:,.12g}"]
        batch = [] if self.records is None else [f"{self.records:,.12g} records a batch"]
        return " and ".join(value + batch)

    @property
    def in_words(self) -> str:
        """Describe who set it, since when and until when; empty: it is declared."""
        if self.by == "declared":
            return ""
        since = "" if self.since is None else f" since {_clock(self.since)}"
        return f"by {self.who or self.by}{since}, until {self.until}"


def values_of(stream: Stream, settings: Mapping[str, str]) -> dict[str, float | None]:
    """The values that can be tuned of `stream`, by name. None: there is no limit.

    Args:
        settings: Spark settings of limits.
    """
    found: dict[str, float | None] = {}
    if isinstance(stream, StructuredStream):
        for source in stream.limits:
            for name in OPTIONS:
                text = settings.get(f"{SOURCE_OPTIONS}{source}.{name}")
                found[f"{source}.{name}"] = _value(name, text)
    if isinstance(stream, DStream) and stream.limits is not None:
        for setting in _of_dstream(stream):
            found[setting] = _value(setting, settings.get(setting))
    if stream.backpressure is not None:
        of: Any = stream.backpressure
        if (text := settings.get(BACKPRESSURE)) is not None:
            with suppress(BadEstimatorPlan):
                of = plan_of(text)
        found |= {name: getattr(of, name.removeprefix(POLICY)) for name in RATES}
    return found


def read_once(stream: Stream, record: Record) -> dict[str, LimitInForce]:
    """The limits that a start of `stream` has now, by name."""
    tuning = record.tuning
    declared = values_of(stream, declared_limits(stream))
    now = values_of(stream, settings_in_force(stream, tuning))
    return {
        name: LimitInForce(name, value)
        if tuning is None or value == declared[name]
        else _tuned(name, value, tuning)
        for name, value in now.items()
    }


def tuned_rates(record: Record) -> dict[str, float]:
    """The live limits that a retuning set, by source. One that somebody has set otherwise or taken
    away since is not the retuning's any more."""
    tuned, rates = record.tuning, record.rates or {}
    return {
        source: rate
        for source, rate in (tuned.rates if tuned is not None else {}).items()
        if rates.get(source) == {MAX_RATE_LIVE: rate}
    }


def set_by_a_person(record: Record) -> dict[str, LimitInForce]:
    """The live limits that a person has set and that stand, by source."""
    tuned = record.tuning.rates if record.tuning is not None else {}
    return {
        source: LimitInForce(
            source,
            limits.get(MAX_RATE_LIVE),
            "person",
            record.limited[source].by if source in record.limited else "a person",
            record.limited[source].at if source in record.limited else None,
            "it is taken away (sparkscale limits --none)",
            limits.get(MAX_RECORDS_LIVE),
        )
        for source, limits in (without(record.rates, tuned) or {}).items()
    }


def live(record: Record) -> dict[str, LimitInForce]:
    """The limits that are set of sources while they run, by source, in records per second. One that
    counts the records of a batch has no rate."""
    tuned = record.tuning
    ours = {} if tuned is None else {s: _tuned(s, r, tuned) for s, r in tuned_rates(record).items()}
    return {**set_by_a_person(record), **ours}


def not_as_declared(stream: Stream, record: Record | None) -> list[LimitInForce]:
    """The limits in force that are not those of the declaration."""
    if record is None:
        return []
    every = [*read_once(stream, record).values(), *live(record).values()]
    return [each for each in every if each.by != "declared"]


def waiting(record: Record | None) -> tuple[str, ...]:
    """What was put back and waits for a start, in words: the driver still has what did harm."""
    tuning = record.tuning if record is not None else None
    if tuning is None or not tuning.put_back or tuning.verify_at is None:
        return ()
    return (f"the limits of before, {tuning.outcome}",)


def bounds_in_force(
    stream: Stream, driver: Driver | None, steering: Steering, shards: int | None = None
) -> Bounds:
    """Between which numbers of executors a stream can move: while a driver runs, those that it was
    started with count, and those that were set since.

    Args:
        shards: of its source, as far as they bound anything; None: not known.
    """
    if driver is None or not driver.state.alive:
        return bounded(stream.bounds, steering)
    reach = until_restart(
        driver.declared, stream.bounds_for(shards, receiver_counts.of_driver(driver))
    )
    return bounded(slots.bounds(stream, driver.record, reach), steering)


def receivers(stream: Stream, record: Record) -> int:
    """How many receivers the next driver of `stream` starts."""
    number = receiver_counts.in_force(stream, record)
    return stream.pinned if number is None else number


def attributed(
    stream: Stream, record: Record | None, status: Status, evaluation: Evaluation
) -> Evaluation:
    """Add to `evaluation` who set the limit that bounds its input: a driver does not know whether a
    limit was tuned.

    Args:
        record: None: nothing is known of who set what.
    """
    if record is None:
        return evaluation
    standing = live(record)
    at_work = {
        limit.source: found
        for limit in status.limits
        if limit.by == "set" and (found := standing.get(limit.source, standing.get(EVERY)))
    }
    if any(each.by == "person" for each in at_work.values()):
        evaluation = replace(evaluation, limit_by=PERSON)
    if evaluation.throttled_by == "set":
        queries = {limit.source: limit.query for limit in status.limits}
        mine = [each for name, each in at_work.items() if queries[name] == evaluation.throttled]
    else:
        mine = _bounding(stream, record, evaluation.throttled_by)
    for by, called in (("person", "set"), ("tuned", "tuned")):
        # Whoever raises one of two limits has to know of the other.
        if who := list(dict.fromkeys(each.in_words for each in mine if each.by == by)):
            more = f"; and {len(who) - _MOST} more" if len(who) > _MOST else ""
            whose = "; ".join(who[:_MOST]) + more
            return replace(evaluation, throttled_by=called, throttled_who=whose)
    return evaluation


_MOST = 2
"""Limits of which a decision says who set them."""


def _bounding(stream: Stream, record: Record, by: str | None) -> list[LimitInForce]:
    """The limits read once that bound an input, by whose the driver takes them for."""
    if by == "max_rate":
        names: tuple[str, ...] = (MAX_RATE,)
    elif by == "source":
        names = (RECEIVER_MAX, f".{MAX_OFFSETS}")
    else:
        return []
    return [each for name, each in read_once(stream, record).items() if name.endswith(names)]


def _tuned(name: str, value: float | None, tuning: Tuning) -> LimitInForce:
    return LimitInForce(
        name,
        value,
        "person" if tuning.by_hand else "tuned",
        tuning.by or "a person",
        tuning.at,
        "another is declared, or it is put back (sparkscale retune --put-back)",
    )


def _of_dstream(stream: DStream) -> list[str]:
    """Settings that are worth tuning of a DStream with limits."""
    given = stream.limits.model_dump(exclude_none=True) if stream.limits is not None else {}
    wanted = {setting for setting, field in STREAMING.items() if field in given}
    if stream.receivers:
        wanted.add(RECEIVER_MAX)
        if stream.backpressure is None:  # which has an initial_rate of its own
            wanted.add(RECEIVER_INITIAL)
    return [setting for setting in STREAMING if setting in wanted]


def _value(name: str, text: str | None) -> float | None:
    """What a setting says; None where it is not there, or says nothing that is a number."""
    if text is None:
        return None
    try:
        return parse_duration(text) if name == MAX_DELAY else float(text)
    except ValueError:
        return None


def _clock(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"
