"""Rates: those of a backpressure policy, and those of receivers that Spark reads once. Pure."""

import math
from collections.abc import Iterator

from dagster_sparkscale.backpressure.advice import (
    FURTHEST,
    OPEN_END,
    TARGET,
    InForce,
    Recommendation,
    comes,
    gains,
    meant,
    number,
    of_batch,
    open_ended,
    rounded,
    safe,
    told,
    too_much,
    usual,
)
from dagster_sparkscale.backpressure.throughput import Sustained
from dagster_sparkscale.backpressure.tunables import (
    INITIAL_RATE,
    MAX_RATE,
    MIN_RATE,
    RECEIVER_INITIAL,
    RECEIVER_MAX,
)

_THROTTLED = 30
"""Minutes at its limit from which on a limit is in the way."""


def rates(seen: Sustained, now: InForce, least_gain: float) -> Iterator[Recommendation | str]:
    if MIN_RATE not in now.values:
        return
    if not now.rated:
        yield "backpressure rates: left as they are: it is not known how many sources share them"
        return
    least, most = now.values[MIN_RATE], now.values.get(MAX_RATE)
    first = now.values.get(INITIAL_RATE)
    share = f", shared by {now.rated} sources" if now.rated > 1 else ""
    start = now.start if now.most is None else min(now.start, now.most)

    fewest = min(seen.fewest, start)
    floor = rounded(seen.low * fewest * 0.5 / now.rated)
    fits = floor * now.interval >= 1  # else a batch would get no record at all
    if least is not None and fits and floor < least and gains(least, floor, least_gain):
        why = (
            f"with {fewest} executors the stream sustains {number(seen.low * fewest)} records/s"
            f"{share}: no limit may force more on it"
        )
        effect = "an overloaded stream is limited to what it can do"
        yield Recommendation(MIN_RATE, least, floor, why, effect)
        least = floor
    begin = rounded(seen.low * start * TARGET / now.rated)
    if begin < (least or 0.0):
        yield (
            f"{INITIAL_RATE}, {MAX_RATE}: left as they are: with {start} executors the stream "
            f"sustains {number(begin)} records/s{share}, which is below {MIN_RATE}"
        )
        return

    # No fewer executors than there may be: the autoscaler adds none for a limit that is set.
    there = max(seen.most, now.most or 0) if now.scaled else seen.most
    best = rounded(seen.high * there / now.rated)
    in_the_way = seen.throttled >= _THROTTLED
    if (
        most is not None
        and best >= (least or 0.0)
        and gains(most, best, least_gain)
        and (
            in_the_way
            if best > most
            else not open_ended(most, best, now) and best * now.rated > seen.input_peak
        )
    ):
        why = f"at their best {there} executors do {number(seen.high * there)} records/s{share}"
        effect = "an estimate that is too high for a moment goes no further"
        if best > most:
            why += f", and its input stood at its limit in {seen.throttled} minutes"
            effect = f"up to {number(best)} records/s catch up instead of {number(most)}"
        yield Recommendation(MAX_RATE, most, best, why, effect)
        most = best

    inside = begin if most is None else min(begin, most)
    above = first is not None and most is not None and first > most
    if above or gains(first, inside, least_gain):
        why = f"{told(seen)}, and a start begins with {start} executors{share}"
        was = "as if nothing were known of it" if first is None else f"with {number(first)}"
        effect = f"a start begins with {number(inside)} records/s and not {was}"
        yield Recommendation(INITIAL_RATE, first, inside, why, effect)


def receivers(seen: Sustained, now: InForce, least_gain: float) -> Iterator[Recommendation | str]:
    if RECEIVER_MAX not in now.values and RECEIVER_INITIAL not in now.values:
        return
    if not now.receivers:
        yield "rates of receivers: left as they are: the stream declares no receivers"
        return
    executors, of_executors = meant(seen, now)
    each = TARGET * seen.low * executors / now.receivers
    share = f", shared by {now.receivers} receivers" if now.receivers > 1 else ""
    furthest = FURTHEST * seen.largest_batch / now.interval / now.receivers
    most = now.values.get(RECEIVER_MAX)
    if RECEIVER_MAX in now.values and (right := safe(most, each, furthest)) is not None:
        after = math.floor(rounded(right))
        if open_ended(most, after, now):
            yield f"{RECEIVER_MAX}: left as it is: {OPEN_END}"
        elif after * now.interval < 1:
            yield f"{RECEIVER_MAX}: left as it is: not even one record a batch"
        elif (come := comes(seen, most, after)) / now.receivers >= after:
            why_not = too_much(seen, executors, after * now.receivers, come)
            yield f"{RECEIVER_MAX}: left as it is: {why_not}"
        elif gains(most, after, least_gain):
            why = f"{told(seen)}, and {of_executors}{share}"
            full = None if most is None else most * now.interval
            speed = seen.low * usual(seen, now) / now.receivers
            effect = of_batch(full, after * now.interval, speed, now.interval)
            yield Recommendation(RECEIVER_MAX, most, after, why, effect)
            most = after
    if RECEIVER_INITIAL in now.values:
        first = now.values[RECEIVER_INITIAL]
        start = now.start if now.most is None else min(now.start, now.most)
        begin = TARGET * seen.low * start / now.receivers
        after = math.floor(rounded(safe(first, begin, furthest) or first or begin))
        after = after if most is None else min(after, math.floor(most))
        above = first is not None and most is not None and first > most
        if after * now.interval >= 1 and (above or gains(first, after, least_gain)):
            why = f"{told(seen)}, and a start begins with {start} executors{share}"
            was = "without a limit" if first is None else f"with {number(first)}"
            effect = f"a start begins with {number(after)} records/s and not {was}"
            yield Recommendation(RECEIVER_INITIAL, first, after, why, effect)
