"""What a simulated run (`dev.load_simulation`) was like, in four numbers. Lower is better."""

import math
from itertools import pairwise

from dev.load_simulation import Done, Run

NEAR = 0.1
"""Of the sustainable rate, above or below."""
TARGET = 0.9
"""Of the interval: what a batch is to take, as far as the measures know."""
WINDOW, INSIDE = 10, 9
"""A limit stays near where it is so in 9 of 10 batches in a row."""


def converge(run: Run, since: float, until: float, target: float = TARGET) -> float:
    """Batch intervals from `since`, when the load or the work changed, until the limit is
    sustainable and stays so; those up to `until` if it never does.

    Sustainable is a rate whose batches take, in the mean, between `target` and all of the
    interval, or that is within 10 % of one. To be asked where more than that comes.
    """
    stream = run.stream
    batches = _of(run, since, until)
    near = [
        (1 - NEAR) * stream.fitting(batch.began, target)
        <= batch.limit / stream.interval
        <= (1 + NEAR) * stream.fitting(batch.began)
        for batch in batches
    ]
    for number in range(len(near) - WINDOW + 1):
        if near[number] and sum(near[number : number + WINDOW]) >= INSIDE:
            return (batches[number].planned - since) / stream.interval
    return (until - since) / stream.interval


def overshoot(run: Run, since: float = 0.0, until: float = math.inf) -> float:
    """By how much the largest batch was too large for the interval, as a share of it: by the time
    that batches of so many records take in the mean."""
    stream = run.stream
    times = [stream.takes(batch.records, batch.began) for batch in _of(run, since, until)]
    return max(0.0, stream.chance * max(times, default=0.0) / stream.interval - 1)


def lost(run: Run, since: float = 0.0, until: float = math.inf, target: float = TARGET) -> float:
    """Of the records that fit into `target` of each interval, while the source held some back:
    the share that the limit refused, though executors were idle.

    What is to be kept free, 1 - `target`, is not lost. A limit can't help that a batch is slow, nor
    does it lose anything while batches wait: executors are busy then.
    """
    stream = run.stream
    refused = possible = 0.0
    for batch, following in pairwise(_of(run, since, until)):
        if batch.left <= 0:
            continue
        fitting = stream.fitting(batch.began, target) * stream.interval
        speed = stream.executors(batch.began) / stream.cost(batch.began)
        idle = max(0.0, following.began - batch.ended)
        refused += min(batch.left, idle * speed, max(0.0, fitting - batch.records))
        possible += fitting
    return refused / possible if possible else 0.0


def over(run: Run, since: float = 0.0, until: float = math.inf) -> float:
    """The share of batches with records that took longer than the interval."""
    batches = [batch for batch in _of(run, since, until) if batch.records]
    late = sum(batch.took > run.stream.interval for batch in batches)
    return late / len(batches) if batches else 0.0


def _of(run: Run, since: float, until: float) -> list[Done]:
    """The batches that were planned in that time."""
    return [batch for batch in run.batches if since <= batch.planned < until]


SETTLED_BY = 4
"""From which batch after a change on the limit has to fit."""


def too_high(run: Run, since: float, until: float, least: float = 0.0) -> float:
    """The largest limit after a change at `since`, as a multiple of what fits into the interval, or
    of `least` where even less fits: from the fourth batch on that was begun since. Infinite if
    there is none: the limits before have let in too much for that.
    """
    begun = [batch for batch in run.batches if since <= batch.began < until]
    if len(begun) < SETTLED_BY:
        return math.inf
    settled = begun[SETTLED_BY - 2].ended
    changes = [settled, *(at for at, _ in run.rates if settled < at < until)]
    return max(run.rate_at(at) / max(least, run.stream.fitting(at)) for at in changes)


def longest_too_high(
    run: Run, since: float, until: float, times: float = 2.0, least: float = 0.0
) -> int:
    """The most batches in a row that might have had more than so many times what fits."""
    longest = row = 0
    for batch in _of(run, since, until):
        fitting = max(least, run.stream.fitting(batch.began)) * run.stream.interval
        row = row + 1 if batch.limit > times * fitting else 0
        longest = max(longest, row)
    return longest
