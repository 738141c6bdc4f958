"""Rates: those of a backpressure policy, and those of receivers that Spark reads once. Pure."""

import math
from collections.abc import Iterator

from dagster_sparkscale.backpressure import advice
from dagster_sparkscale.backpressure.advice import InForce, Recommendation
from dagster_sparkscale.backpressure.throughput import Sustained
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


def rates(measured: Sustained, now: InForce, least_gain: float) -> Iterator[Recommendation | str]:
    """The rates of a backpressure policy: what each should be, or why it stays."""
    if MIN_RATE not in now.values:
        return
    if not now.rated:
        yield "backpressure rates: left as they are: it is not known how many sources share them"
        return
    least, most = now.values[MIN_RATE], now.values.get(MAX_RATE)
    if (lower := _min_rate(measured, now, least_gain)) is not None:
        yield lower
        least = lower.after
    start = _start(now)
    begin = advice.rounded(measured.low * start * advice.TARGET / now.rated)
    if begin < (least or 0.0):
        yield (
            f"{INITIAL_RATE}, {MAX_RATE}: left as they are: with {start} executors the stream "
            f"sustains {number(begin)} records/s{_share(now)}, which is below {MIN_RATE}"
        )
        return
    if (highest := _max_rate(measured, now, least_gain, least or 0.0)) is not None:
        yield highest
        most = highest.after
    if (first := _initial_rate(measured, now, least_gain, begin, most)) is not None:
        yield first


def _start(now: InForce) -> int:
    """Executors that a start begins with."""
    return now.start if now.most is None else min(now.start, now.most)


def _share(now: InForce) -> str:
    return f", shared by {now.rated} sources" if (now.rated or 0) > 1 else ""


def _min_rate(measured: Sustained, now: InForce, least_gain: float) -> Recommendation | None:
    """A lower `min_rate`, where it may force more on a stream than that does on few executors."""
    assert now.rated
    least, fewest = now.values[MIN_RATE], min(measured.fewest, _start(now))
    floor = advice.rounded(measured.low * fewest * 0.5 / now.rated)
    fits = floor * now.interval >= 1  # else a batch would get no record at all
    if least is None or not fits or floor >= least or not advice.gains(least, floor, least_gain):
        return None
    why = (
        f"with {fewest} executors the stream sustains {number(measured.low * fewest)} records/s"
        f"{_share(now)}: no limit may force more on it"
    )
    effect = "an overloaded stream is limited to what it can do"
    return Recommendation(MIN_RATE, least, floor, why, effect)


def _max_rate(
    measured: Sustained, now: InForce, least_gain: float, least: float
) -> Recommendation | None:
    """The `max_rate` that the most executors do at their best: a higher one where it is in the way,
    a lower one where no more ever came."""
    assert now.rated
    most = now.values.get(MAX_RATE)
    # No fewer executors than there may be: the autoscaler adds none for a limit that is set.
    there = max(measured.most, now.most or 0) if now.scaled else measured.most
    best = advice.rounded(measured.high * there / now.rated)
    if most is None or best < least or not advice.gains(most, best, least_gain):
        return None
    why = (
        f"at their best {there} executors do {number(measured.high * there)} records/s{_share(now)}"
    )
    if best > most:
        if measured.throttled < _THROTTLED:
            return None
        why += f", and its input stood at its limit in {measured.throttled} minutes"
        effect = f"up to {number(best)} records/s catch up instead of {number(most)}"
    elif advice.open_ended(most, best, now) or best * now.rated <= measured.input_peak:
        return None
    else:
        effect = "an estimate that is too high for a moment goes no further"
    return Recommendation(MAX_RATE, most, best, why, effect)


def _initial_rate(
    measured: Sustained, now: InForce, least_gain: float, begin: float, most: float | None
) -> Recommendation | None:
    """The `initial_rate` that the executors of a start do."""
    first = now.values.get(INITIAL_RATE)
    inside = begin if most is None else min(begin, most)
    above = first is not None and most is not None and first > most
    if not above and not advice.gains(first, inside, least_gain):
        return None
    was = "as if nothing were known of it" if first is None else f"with {number(first)}"
    begins = f"a start begins with {_start(now)} executors{_share(now)}"
    why = f"{advice.in_words(measured)}, and {begins}"
    effect = f"a start begins with {number(inside)} records/s and not {was}"
    return Recommendation(INITIAL_RATE, first, inside, why, effect)


def receivers(
    measured: Sustained, now: InForce, least_gain: float
) -> Iterator[Recommendation | str]:
    """The rates of receivers that Spark reads once: what each should be, or why it stays."""
    if RECEIVER_MAX not in now.values and RECEIVER_INITIAL not in now.values:
        return
    if not now.receivers:
        yield "rates of receivers: left as they are: the stream declares no receivers"
        return
    share = f", shared by {now.receivers} receivers" if now.receivers > 1 else ""
    furthest = advice.FURTHEST * measured.largest_batch / now.interval / now.receivers
    most = now.values.get(RECEIVER_MAX)
    if (found := _receiver_max(measured, now, least_gain, furthest, share)) is not None:
        yield found
        most = found.after if isinstance(found, Recommendation) else most
    first = _receiver_initial(measured, now, least_gain, furthest, share, most)
    if first is not None:
        yield first


def _receiver_max(
    measured: Sustained, now: InForce, least_gain: float, furthest: float, share: str
) -> Recommendation | str | None:
    assert now.receivers
    most = now.values.get(RECEIVER_MAX)
    executors, of_executors = advice.meant(measured, now)
    each = advice.TARGET * measured.low * executors / now.receivers
    if RECEIVER_MAX not in now.values or (right := advice.safe(most, each, furthest)) is None:
        return None
    after = math.floor(advice.rounded(right))
    if advice.open_ended(most, after, now):
        return f"{RECEIVER_MAX}: left as it is: {advice.OPEN_END}"
    if after * now.interval < 1:
        return f"{RECEIVER_MAX}: left as it is: not even one record a batch"
    if (come := advice.comes(measured, most, after)) / now.receivers >= after:
        why_not = advice.too_much(measured, executors, after * now.receivers, come)
        return f"{RECEIVER_MAX}: left as it is: {why_not}"
    if not advice.gains(most, after, least_gain):
        return None
    full = None if most is None else most * now.interval
    speed = measured.low * advice.usual(measured, now) / now.receivers
    effect = advice.of_batch(full, after * now.interval, speed, now.interval)
    why = f"{advice.in_words(measured)}, and {of_executors}{share}"
    return Recommendation(RECEIVER_MAX, most, after, why, effect)


def _receiver_initial(
    measured: Sustained,
    now: InForce,
    least_gain: float,
    furthest: float,
    share: str,
    most: float | None,
) -> Recommendation | None:
    if RECEIVER_INITIAL not in now.values:
        return None
    assert now.receivers
    first, start = now.values[RECEIVER_INITIAL], _start(now)
    begin = advice.TARGET * measured.low * start / now.receivers
    after = math.floor(advice.rounded(advice.safe(first, begin, furthest) or first or begin))
    after = after if most is None else min(after, math.floor(most))
    above = first is not None and most is not None and first > most
    if above and most is not None and after * now.interval < 1:
        after = math.floor(most)  # the declaration refuses what is above it
    if after * now.interval < 1 or not (above or advice.gains(first, after, least_gain)):
        return None
    why = f"{advice.in_words(measured)}, and a start begins with {start} executors{share}"
    was = "without a limit" if first is None else f"with {number(first)}"
    effect = f"a start begins with {number(after)} records/s and not {was}"
    return Recommendation(RECEIVER_INITIAL, first, after, why, effect)
