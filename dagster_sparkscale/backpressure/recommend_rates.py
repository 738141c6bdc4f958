"""Rates: those of a backpressure policy, and those of receivers that Spark reads once. Pure."""

import math
from collections.abc import Iterator

from dagster_sparkscale.backpressure import advice
from dagster_sparkscale.backpressure.advice import Case, Recommendation
from dagster_sparkscale.in_force.limits import (
    INITIAL_RATE,
    MAX_RATE,
    MIN_RATE,
    RECEIVER_INITIAL,
    RECEIVER_MAX,
)
from dagster_sparkscale.quantities import number

_THROTTLED = 30
"""Minutes at its limit from which on a limit is in the way."""


def rates(case: Case) -> Iterator[Recommendation | str]:
    """The rates of a backpressure policy: what each should be, or why it stays."""
    now, start = case.now, case.start
    if MIN_RATE not in now.values:
        return
    if not now.rated:
        yield "backpressure rates: left as they are: it is not known how many sources share them"
        return
    share = _share(now.rated, "sources")
    least, most = now.values[MIN_RATE], now.values.get(MAX_RATE)
    if (lower := _min_rate(case, now.rated, share)) is not None:
        yield lower
        least = lower.after
    begin = advice.rounded(case.measured.low * start * advice.TARGET / now.rated)
    if begin < (least or 0.0):
        yield (
            f"{INITIAL_RATE}, {MAX_RATE}: left as they are: with {start} executors the stream "
            f"sustains {number(begin)} records/s{share}, which is below {MIN_RATE}"
        )
        return
    if (highest := _max_rate(case, now.rated, share, least or 0.0)) is not None:
        yield highest
        most = highest.after
    first, inside = now.values.get(INITIAL_RATE), begin if most is None else min(begin, most)
    if _is_above(first, most) or case.gains(first, inside):
        unknown = "as if nothing were known of it"
        yield case.of_start(INITIAL_RATE, first, inside, share, unknown)


def _share(number: int, what: str) -> str:
    return f", shared by {number} {what}" if number > 1 else ""


def _is_above(first: float | None, most: float | None) -> bool:
    """Whether a start begins with more than there may be, which a declaration refuses."""
    return first is not None and most is not None and first > most


def _min_rate(case: Case, rated: int, share: str) -> Recommendation | None:
    """A lower `min_rate`, where it may force more on a stream than that does on few executors."""
    least, fewest = case.now.values[MIN_RATE], min(case.measured.fewest, case.start)
    sustains = case.measured.low * fewest
    floor = advice.rounded(sustains * 0.5 / rated)
    fits = floor * case.now.interval >= 1  # else a batch would get no record at all
    if least is None or not fits or floor >= least or not case.gains(least, floor):
        return None
    why = (
        f"with {fewest} executors the stream sustains {number(sustains)} records/s{share}: no "
        "limit may force more on it"
    )
    effect = "an overloaded stream is limited to what it can do"
    return Recommendation(MIN_RATE, least, floor, why, effect)


def _max_rate(case: Case, rated: int, share: str, least: float) -> Recommendation | None:
    """The `max_rate` that the most executors do at their best: a higher one where it is in the way,
    a lower one where no more ever came."""
    measured, now = case.measured, case.now
    most = now.values.get(MAX_RATE)
    # No fewer executors than there may be: the autoscaler adds none for a limit that is set.
    there = max(measured.most, now.most or 0) if now.scaled else measured.most
    best = advice.rounded(measured.high * there / rated)
    if most is None or best < least or not case.gains(most, best):
        return None
    why = f"at their best {there} executors do {number(measured.high * there)} records/s{share}"
    if best > most:
        if measured.throttled < _THROTTLED:
            return None
        why += f", and its input stood at its limit in {measured.throttled} minutes"
        effect = f"up to {number(best)} records/s catch up instead of {number(most)}"
    elif case.open_ended(most, best) or best * rated <= measured.input_peak:
        return None
    else:
        effect = "an estimate that is too high for a moment goes no further"
    return Recommendation(MAX_RATE, most, best, why, effect)


def receivers(case: Case) -> Iterator[Recommendation | str]:
    """The rates of receivers that Spark reads once: what each should be, or why it stays."""
    now = case.now
    if RECEIVER_MAX not in now.values and RECEIVER_INITIAL not in now.values:
        return
    if not now.receivers:
        yield "rates of receivers: left as they are: the stream declares no receivers"
        return
    share = _share(now.receivers, "receivers")
    furthest = advice.FURTHEST * case.measured.largest_batch / now.interval / now.receivers
    most = now.values.get(RECEIVER_MAX)
    if (found := _receiver_max(case, furthest, share)) is not None:
        yield found
        most = found.after if isinstance(found, Recommendation) else most
    if (first := _receiver_initial(case, furthest, share, most)) is not None:
        yield first


def _receiver_max(case: Case, furthest: float, share: str) -> Recommendation | str | None:
    measured, now = case.measured, case.now
    most = now.values.get(RECEIVER_MAX)
    executors, of_executors = case.meant
    each = advice.TARGET * measured.low * executors / now.receivers
    if RECEIVER_MAX not in now.values or (right := advice.safe(most, each, furthest)) is None:
        return None
    after = math.floor(advice.rounded(right))
    left = f"{RECEIVER_MAX}: left as it is"
    if case.open_ended(most, after):
        return f"{left}: {advice.OPEN_END}"
    if after * now.interval < 1:
        return f"{left}: not even one record a batch"
    if why_not := case.too_little(most, after, after * now.receivers):
        return f"{left}: {why_not}"
    if not case.gains(most, after):
        return None
    full = None if most is None else most * now.interval
    speed = measured.low * case.usual / now.receivers
    effect = advice.of_batch(full, after * now.interval, speed, now.interval)
    why = f"{advice.in_words(measured)}, and {of_executors}{share}"
    return Recommendation(RECEIVER_MAX, most, after, why, effect)


def _receiver_initial(
    case: Case, furthest: float, share: str, most: float | None
) -> Recommendation | None:
    now = case.now
    if RECEIVER_INITIAL not in now.values:
        return None
    first = now.values[RECEIVER_INITIAL]
    begin = advice.TARGET * case.measured.low * case.start / now.receivers
    after = math.floor(advice.rounded(advice.safe(first, begin, furthest) or first or begin))
    after = after if most is None else min(after, math.floor(most))
    above = _is_above(first, most)
    if above and most is not None and after * now.interval < 1:
        after = math.floor(most)  # the declaration refuses what is above it
    if after * now.interval < 1 or not (above or case.gains(first, after)):
        return None
    return case.of_start(RECEIVER_INITIAL, first, after, share, "without a limit")
