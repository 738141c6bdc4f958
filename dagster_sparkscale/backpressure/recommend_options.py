"""Options that a query of Structured Streaming reads once, when it starts. Pure."""

import math
from collections.abc import Iterator

from dagster_sparkscale.backpressure import advice
from dagster_sparkscale.backpressure.advice import Case, Recommendation
from dagster_sparkscale.backpressure.tunables import option
from dagster_sparkscale.in_force.limits import MAX_DELAY, MAX_OFFSETS, MIN_OFFSETS
from dagster_sparkscale.quantities import number

DOMINATE = 0.8
"""Share of the minutes with work from which on tiny batches are what a stream does."""
_DELAY = 900.0
"""Seconds of maxTriggerDelay where none is given (Spark's `KafkaSourceProvider`)."""


def options(case: Case) -> Iterator[Recommendation | str]:
    """The options that say how large a batch is: what each should be, or why it stays."""
    measured, now = case.measured, case.now
    limited = [name for name in now.values if name.endswith(f".{MAX_OFFSETS}")]
    if not limited:
        return
    present = {name: now.values[name] for name in limited}
    if now.queries != 1:
        how_many = "an unknown number of" if now.queries is None else str(now.queries)
        yield (
            f"{', '.join(limited)}: left as it is: the history has totals of all queries, and it "
            f"can't be told what each of {how_many} queries takes; set it by hand"
        )
        return
    if len(limited) > 1 and None in present.values():
        yield (
            f"{', '.join(limited)}: left as they are: the history has totals of all sources, which "
            "are shared as their limits are, and one has none; set it by hand"
        )
        return
    executors, of_executors = case.meant
    fits = measured.low * executors * advice.TARGET * now.interval
    furthest = advice.FURTHEST * measured.largest_batch
    before = sum(value for value in present.values() if value is not None)
    declared = None if None in present.values() else before
    total = advice.safe(declared, fits, furthest)
    if total is not None and case.open_ended(declared, total):
        yield f"{', '.join(limited)}: left as it is: {advice.OPEN_END}"
        total = None
    if total is not None and (why_not := case.too_little(declared, total, total / now.interval)):
        yield f"{', '.join(limited)}: left as it is: {why_not}"
        return
    for name, value in present.items():
        # Of one source nothing is to share; of several, all have a limit.
        share = 1.0 if value is None else value / before
        after = None if total is None else float(math.floor(advice.rounded(total * share)))
        if after is not None and after < 1:
            yield f"{name}: left as it is: not even one record fits into a batch"
            continue
        if after is not None and case.gains(value, after):
            why = f"{advice.in_words(measured)}, and {of_executors}"
            if len(limited) > 1:
                why += f"; {share:.0%} of it is for this source, as now"
            if total != fits:
                why += (
                    f"; at most {advice.FURTHEST:g} times the largest batches that were seen, of "
                    f"{number(measured.largest_batch)} records"
                )
            speed = measured.low * case.usual * share
            effect = advice.of_batch(value, after, speed, now.interval)
            yield Recommendation(name, value, after, why, effect)
        elif value is not None:
            after = value
        if after is not None:
            yield from _least(name, after, case)


def _least(name: str, most: float, case: Case) -> Iterator[Recommendation | str]:
    """The least that makes a batch, where tiny batches are what a stream does."""
    measured, now = case.measured, case.now
    least, delay = option(name, MIN_OFFSETS), option(name, MAX_DELAY)
    present = now.values.get(least)
    tiny = (
        f"in {measured.tiny:.0%} of the minutes with work batches are tiny: most of their time is "
    )
    tiny += "spent on other things than records"
    if present is not None and present > most:
        why = f"it must not be above {name}, which is {number(most)}"
        yield Recommendation(least, present, most, why, "it makes no batch wait for more than that")
        return
    if measured.tiny < DOMINATE:
        return
    if present is None:
        yield (
            f"{tiny}; {MIN_OFFSETS} would make fewer and larger ones of them, which come later: "
            "declare it if that is all right"
        )
        return
    after = math.floor(advice.rounded(most / 5))
    if after > present and case.gains(present, after):
        fewer = f"a batch waits until it is a fifth of a full one, or {delay} is over"
        yield Recommendation(least, present, after, tiny, fewer)
    waits, lag = now.values.get(delay), now.max_lag
    if lag is not None and (waits or _DELAY) > lag:
        why = f"max_lag = {number(lag)} s, and a batch may wait for longer"
        shorter = advice.rounded(lag / 2)
        if shorter >= 1:
            yield Recommendation(delay, waits, shorter, why, "data comes before max_lag is over")
