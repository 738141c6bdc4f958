"""The tuned limits of a stream, and whether they still override its declaration. Pure.

    in force      what is declared, and over it what was tuned
    stands        while the declaration makes of a group of settings what it made of them then
    dropped       as soon as it makes something else of one of the group: the declaration wins

A group is what must fit together: the options of one source; rates, of the backpressure policy and
of DStreams.
"""

from collections.abc import Mapping
from dataclasses import replace

from dagster_sparkscale.clusters.records.store import Record, Tuning
from dagster_sparkscale.declare.limits import StreamingLimits
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.driver.backpressure.plan import BadEstimatorPlan, plan_of
from dagster_sparkscale.driver.settings import BACKPRESSURE, SOURCE_OPTIONS

_RATES = (BACKPRESSURE, *StreamingLimits.spark_settings.values())


def declared_limits(stream: Stream) -> dict[str, str]:
    """The Spark settings of the declared limits."""
    made = (part.settings(stream).items() for part in stream.parts)
    return {name: value for each in made for name, value in each if _group(name) is not None}


def as_metadata(stream: Stream) -> dict[str, str]:
    """The declared limits, as the asset of the stream shows them."""
    shown: dict[str, str] = {}
    if (policy := stream.backpressure) is not None:
        most = f"to {policy.max_rate:,.15g}" if policy.max_rate is not None else "or more"
        shown["backpressure"] = f"{policy.estimator}: {policy.min_rate:,.15g} {most} records/s"
    if options := {n: v for n, v in declared_limits(stream).items() if n != BACKPRESSURE}:
        each = (f"{name.removeprefix(SOURCE_OPTIONS)} {value}" for name, value in options.items())
        shown["limits_declared"] = ", ".join(each)
    return shown


def in_force(stream: Stream, tuning: Tuning | None) -> dict[str, str]:
    """The Spark settings of limits with which a driver would start now."""
    declared = declared_limits(stream)
    return {**declared, **standing(tuning, declared)}


def standing(tuning: Tuning | None, declared: Mapping[str, str]) -> dict[str, str]:
    """The tuned settings that still stand beside the declaration."""
    if tuning is None:
        return {}
    gone = _gone(tuning, declared)
    return {name: value for name, value in tuning.settings.items() if _group(name) not in gone}


def before(
    tuning: Tuning, declared: Mapping[str, str]
) -> tuple[dict[str, str], Mapping[str, float]]:
    """The settings and tuned live limits before `tuning`, to go back to.

    A group that is declared anew since goes back to the declaration instead.
    """
    settings = standing(replace(tuning, settings=tuning.before), declared)
    return settings, {} if BACKPRESSURE in _gone(tuning, declared) else tuning.rates_before


def at_start(record: Record, stream: Stream, now: float) -> tuple[Record, tuple[str, ...]]:
    """Prepare `record` for a start of `stream`; returns it with a line for each tuned setting that
    the declaration has replaced.

    The first start of a stream that is retuned notes its declaration. A changed declaration counts
    as tuned by a person: nothing is retuned by itself for a while.

    Args:
        now: seconds since the epoch.
    """
    tuning, declared = record.tuning, declared_limits(stream)
    if tuning is None:
        if stream.retune is None:
            return record, ()
        return replace(record, tuning=Tuning({}, by="", at=now, declared=declared)), ()
    gone = _gone(tuning, declared)
    if not gone:
        return record, ()
    lines = tuple(
        f"{name} = {value}, tuned by {tuning.by}, does not stand any more: what is declared of it "
        "has changed"
        for name, value in sorted(tuning.settings.items())
        if _group(name) in gone
    )
    rates, ours = record.rates, tuning.rates
    if BACKPRESSURE in gone:
        rates, ours = without(rates, ours), {}
    settings = standing(tuning, declared)
    by = "a changed declaration"
    if settings or ours:  # who has set what is left
        by = f"{tuning.by.removesuffix(_LEFT) or 'a person'}{_LEFT}"
    left = Tuning(settings=settings, by=by, at=now, by_hand=True, declared=declared, rates=ours)
    return replace(record, tuning=left, rates=rates), lines


_LEFT = " (as far as it stands beside what is declared since)"


def without(
    rates: Mapping[str, Mapping[str, float]] | None, ours: Mapping[str, float]
) -> dict[str, dict[str, float]] | None:
    """Remove tuned rates from live limits; one that somebody has set since stays."""
    if rates is None:
        return None
    left = {
        source: {
            limit: value
            for limit, value in limits.items()
            if (limit, value) != (MAX_RATE_LIVE, ours.get(source))
        }
        for source, limits in rates.items()
    }
    return {source: limits for source, limits in left.items() if limits}


def with_tuning(record: Record, tuning: Tuning) -> Record:
    """Put `tuning` into `record`, and its live limits beside those that others have set."""
    ours = record.tuning.rates if record.tuning is not None else {}
    rates = without(record.rates, ours)
    for source, rate in tuning.rates.items():
        rates = {**(rates or {}), source: {**(rates or {}).get(source, {}), MAX_RATE_LIVE: rate}}
    return replace(record, tuning=tuning, rates=rates)


MAX_RATE_LIVE = "maxRate"
"""The name of a source's live limit in records per second, in `PUT /v1/rates`."""


def _gone(tuning: Tuning, declared: Mapping[str, str]) -> set[str]:
    """The groups whose declaration has changed since they were tuned."""
    names = {*declared, *tuning.declared}
    changed = [
        name for name in names if not _same(name, declared.get(name), tuning.declared.get(name))
    ]
    return {group for name in changed if (group := _group(name)) is not None}


def _same(setting: str, one: str | None, other: str | None) -> bool:
    """Whether two values are the same. A policy that another release wrote may lack fields, or have
    more."""
    if one == other or setting != BACKPRESSURE or one is None or other is None:
        return one == other
    try:
        return plan_of(one) == plan_of(other)
    except BadEstimatorPlan:
        return False


def _group(setting: str) -> str | None:
    """The group of a setting; None: it is no setting of limits."""
    if setting.startswith(SOURCE_OPTIONS):
        return setting.rpartition(".")[0]
    return BACKPRESSURE if setting in _RATES else None
