"""What was tuned of a stream's limits, against what its declaration makes of them now. Pure.

    in force      what is declared, and over it what was tuned
    stands        while the declaration makes of a group of settings what it made of them then
    dropped       as soon as it makes something else of one of the group: the declaration wins

A group is what must fit together: the options of one source; rates, of the backpressure policy and
of DStreams.
"""

from collections.abc import Mapping
from dataclasses import replace

from dagster_sparkscale.clusters.launch.spark_settings import limit_settings
from dagster_sparkscale.clusters.records.store import Record, Tuning
from dagster_sparkscale.declare.limits import StreamingLimits
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.driver.backpressure.plan import BadPlan, plan_of
from dagster_sparkscale.driver.wire import BACKPRESSURE, SOURCE_OPTIONS

_RATES = (BACKPRESSURE, *StreamingLimits.spark_settings.values())


def declared_limits(stream: Stream) -> dict[str, str]:
    """The Spark settings of limits that the declaration makes."""
    made = limit_settings(stream)
    return {name: value for name, value in made.items() if _group(name) is not None}


def in_force(stream: Stream, tuning: Tuning | None) -> dict[str, str]:
    """The Spark settings of limits that a start has now."""
    declared = declared_limits(stream)
    return {**declared, **standing(tuning, declared)}


def standing(tuning: Tuning | None, declared: Mapping[str, str]) -> dict[str, str]:
    """What was tuned and stands beside what is declared now."""
    if tuning is None:
        return {}
    gone = _gone(tuning, declared)
    return {name: value for name, value in tuning.settings.items() if _group(name) not in gone}


def before(
    tuning: Tuning, declared: Mapping[str, str]
) -> tuple[dict[str, str], Mapping[str, float]]:
    """What was in force before it, to go back to: settings, and live limits that were tuned.

    Only what stands beside what is declared now: where something else is declared by then, it is
    that which is gone back to.
    """
    settings = standing(replace(tuning, settings=tuning.before), declared)
    return settings, {} if BACKPRESSURE in _gone(tuning, declared) else tuning.rates_before


def at_start(record: Record, stream: Stream, now: float) -> tuple[Record, tuple[str, ...]]:
    """`record` as a start of `stream` is to find it, and what of its tuning does not stand any
    more, a line each.

    What is declared is noted with the first start of a stream that is retuned, and where it has
    changed since, the record says so: as after a person's tuning, nothing is retuned by itself for
    a while.

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
    left = Tuning(
        settings=standing(tuning, declared),
        by="a changed declaration",
        at=now,
        by_hand=True,
        declared=declared,
        rates=ours,
    )
    return replace(record, tuning=left, rates=rates), lines


def without(
    rates: Mapping[str, Mapping[str, float]] | None, ours: Mapping[str, float]
) -> dict[str, dict[str, float]] | None:
    """Live limits without the rates that were tuned; one that somebody has set since stays."""
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
    """`record` with what was tuned, and with its live limits beside those that others have set."""
    ours = record.tuning.rates if record.tuning is not None else {}
    rates = without(record.rates, ours)
    for source, rate in tuning.rates.items():
        rates = {**(rates or {}), source: {**(rates or {}).get(source, {}), MAX_RATE_LIVE: rate}}
    return replace(record, tuning=tuning, rates=rates)


MAX_RATE_LIVE = "maxRate"
"""The live limit of a source in records per second, as `PUT /v1/rates` has it."""


def _gone(tuning: Tuning, declared: Mapping[str, str]) -> set[str]:
    """The groups of which something else is declared than when it was tuned."""
    names = {*declared, *tuning.declared}
    changed = [
        name for name in names if not _same(name, declared.get(name), tuning.declared.get(name))
    ]
    return {group for name in changed if (group := _group(name)) is not None}


def _same(setting: str, one: str | None, other: str | None) -> bool:
    """Whether two values say the same. A policy that another release has written down may lack
    fields, or have more of them."""
    if one == other or setting != BACKPRESSURE or one is None or other is None:
        return one == other
    try:
        return plan_of(one) == plan_of(other)
    except BadPlan:
        return False


def _group(setting: str) -> str | None:
    """What a setting must fit together with; None: it is none of limits."""
    if setting.startswith(SOURCE_OPTIONS):
        return setting.rpartition(".")[0]
    return BACKPRESSURE if setting in _RATES else None
