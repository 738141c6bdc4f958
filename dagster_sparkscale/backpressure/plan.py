"""What is to be changed of a stream's limits, and how it gets into force. Pure.

    live       a lower `backpressure.max_rate`: the sources get it as a live limit
    start      what only a start begins with: it is remembered for the next one
    restart    all else, which is read once per start

Where a restart is needed for one, all of them come with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from dagster_sparkscale.backpressure.advice import LimitsNow, Recommendation, shown
from dagster_sparkscale.backpressure.tunables import with_values
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.declare.drift import executors_at_start
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.driver.live_limits import EVERY
from dagster_sparkscale.in_force import receiver_counts
from dagster_sparkscale.in_force.limits import (
    INITIAL_RATE,
    MAX_RATE,
    RECEIVER_INITIAL,
    receivers,
    tuned_rates,
    values_of,
)
from dagster_sparkscale.in_force.tuned import MAX_RATE_LIVE, in_force
from dagster_sparkscale.observe.status import Status

How = Literal["live", "start", "restart"]

AT_A_START = {INITIAL_RATE, RECEIVER_INITIAL}
"""Limits that nothing but a start heeds."""


@dataclass(frozen=True)
class Present:
    """The limits of a stream as they are in force."""

    settings: Mapping[str, str]
    """The Spark settings of a start now."""
    values: Mapping[str, float | None]
    """The values by the limit's name; None: no limit."""
    rates: Mapping[str, float]
    """Live limits that were tuned, by source."""


@dataclass(frozen=True)
class LimitChange:
    """What is to be changed."""

    recommended: tuple[Recommendation, ...]
    how: How
    settings: Mapping[str, str]
    """The Spark settings of limits for each later start."""
    rates: Mapping[str, float]
    """Live limits by then, in records per second, by source."""

    @property
    def in_short(self) -> str:
        return ", ".join(
            f"{each.limit} from {shown(each.before)} to {shown(each.after)}"
            for each in self.recommended
        )


def present(stream: Stream, record: Record) -> Present:
    """The limits of a stream as they are in force."""
    settings = in_force(stream, record.tuning)
    found = values_of(stream, settings)
    rates = tuned_rates(record)
    if rates and MAX_RATE in found:
        most = found[MAX_RATE]
        found[MAX_RATE] = min([*rates.values(), *([most] if most is not None else [])])
    return Present(settings, found, rates)


def situation(stream: Stream, record: Record, now: Present, status: Status) -> LimitsNow:
    """What is to be known of a stream beside its history."""
    policy = stream.backpressure
    rated = None
    if policy is not None:
        rated = len(policy.sources) or len(status.limits) or None
    return LimitsNow(
        values=now.values,
        interval=stream.batch_interval,
        start=executors_at_start(
            stream, record.executors, record.declared, receiver_counts.in_force(stream, record)
        ),
        most=stream.bounds.maximum,
        scaled=stream.autoscale is not None,
        queries=sum(1 for query in status.queries if query.active),
        rated=rated,
        receivers=receivers(stream, record),
        max_lag=stream.autoscale.max_lag if stream.autoscale is not None else None,
    )


def by_hand(wanted: Mapping[str, float], now: Present) -> tuple[Recommendation, ...]:
    """Values that a person gives, without those that are in force."""
    return tuple(
        Recommendation(limit, now.values.get(limit), value, "set by hand", "not foreseen")
        for limit, value in wanted.items()
        if now.values.get(limit) != value
    )


def change(
    stream: Stream,
    now: Present,
    recommended: tuple[Recommendation, ...],
    status: Status,
    rates_set: Mapping[str, Mapping[str, float]],
) -> LimitChange:
    """How these get into force.

    Args:
        rates_set: live limits that are set, by source and limit, whoever has set them.

    Raises:
        DeclarationError: a value makes no sense, by itself or beside the others.
    """
    wanted = {each.limit: each.after for each in recommended}
    declared = {**now.values}
    if MAX_RATE in declared:
        declared[MAX_RATE] = values_of(stream, now.settings)[MAX_RATE]
    rest = {limit: value for limit, value in wanted.items() if limit != MAX_RATE}
    most = declared.get(MAX_RATE)
    if set(rest) <= AT_A_START:
        # The next start has the live limits that were set last: the settings keep what they say.
        if MAX_RATE not in wanted:
            return LimitChange(recommended, "start", with_values(stream, declared, rest), now.rates)
        sources = _ours(stream, now.rates, status, rates_set)
        if sources and (most is None or wanted[MAX_RATE] <= most):
            rates = {} if wanted[MAX_RATE] == most else dict.fromkeys(sources, wanted[MAX_RATE])
            return LimitChange(recommended, "live", with_values(stream, declared, rest), rates)
    return LimitChange(recommended, "restart", with_values(stream, now.values, wanted), {})


def way_back(stream: Stream, now: Present, settings: Mapping[str, str], live: bool) -> How:
    """How settings of before get into force again.

    Args:
        settings: of limits, that are to be.
        live: whether live limits are to be others as well.
    """
    wanted = values_of(stream, settings)
    before = values_of(stream, now.settings)
    if {limit for limit in wanted if wanted[limit] != before.get(limit)} <= AT_A_START:
        return "live" if live else "start"
    return "restart"


def _ours(
    stream: Stream,
    tuned: Mapping[str, float],
    status: Status,
    rates_set: Mapping[str, Mapping[str, float]],
) -> list[str]:
    """The sources that take live limits, but for those for which a person has set a rate; all of
    them by `EVERY` where none has told of itself yet, as soon after a start."""
    policy = stream.backpressure
    if not status.limits:
        return [EVERY] if rates_set.get(EVERY, {}).get(MAX_RATE_LIVE) == tuned.get(EVERY) else []
    return [
        limit.source
        for limit in status.limits
        if (policy is None or not policy.sources or limit.source in policy.sources)
        and _is_free(limit.source, tuned, rates_set)
    ]


def _is_free(
    source: str, tuned: Mapping[str, float], rates_set: Mapping[str, Mapping[str, float]]
) -> bool:
    """Whether no limit that a person has set is lost where this source is given a rate."""
    if source in rates_set:
        return rates_set[source].get(MAX_RATE_LIVE) == tuned.get(source)
    # With one of its own, none that is set for all is in force for it any more.
    ours = {MAX_RATE_LIVE: tuned[EVERY]} if EVERY in tuned else {}
    return dict(rates_set.get(EVERY, {})) == ours
