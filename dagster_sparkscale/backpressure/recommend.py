"""Recommends limits that suit what a stream sustains, each with its reason and its use. Pure.

    options read once   what a batch of 0.9 intervals does with the executors there usually are;
                        with those there may be, where an autoscaler adds them
    initial_rate        the same in a second, with the executors that a start begins with
    min_rate            half of that with the fewest executors, where it is above: batches that the
                        floor forces on a stream must fit
    max_rate            what executors did at their best: a bound of estimates, no throttle

What must not change: nothing is recommended that is above what was measured, times what bounds it;
nor beyond `FURTHEST` times the largest batch that was seen, for memory and skew do not grow in
proportion. What was not measured is no zero: then nothing is recommended, and it is said why.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dagster_sparkscale.backpressure.advice import Case, LimitsNow, Recommendation, in_words
from dagster_sparkscale.backpressure.recommend_options import options
from dagster_sparkscale.backpressure.recommend_rates import rates, receivers
from dagster_sparkscale.backpressure.throughput import sustained
from dagster_sparkscale.observe.minutes import Minute


@dataclass(frozen=True)
class Advice:
    """What is recommended, and what is to be said beside it."""

    recommended: tuple[Recommendation, ...] = ()
    why_not: str = ""
    """Why nothing is, in words; empty: something is."""
    notes: tuple[str, ...] = ()


def recommend(minutes: Sequence[Minute], now: LimitsNow, least_gain: float) -> Advice:
    """What limits the stream should have by its history.

    Args:
        minutes: in order of time.
        least_gain: share of a value by which another has to differ to be worth it.
    """
    if not now.values:
        return Advice(why_not="it has no limits that could be retuned")
    measured = sustained(minutes, now.interval)
    if isinstance(measured, str):
        return Advice(why_not=measured)
    found: dict[str, Recommendation] = {}
    refused: list[str] = []
    for part in (options, rates, receivers):
        for each in part(Case(measured, now, least_gain)):
            if isinstance(each, Recommendation):
                found[each.limit] = each
            else:
                refused.append(each)
    if found:
        return Advice(tuple(found.values()), notes=(*refused, *measured.notes))
    why = "; ".join(refused) or (
        f"nothing to gain: no limit differs by {least_gain:.0%} or more from what its history "
        f"recommends ({in_words(measured)})"
    )
    return Advice(why_not=why, notes=measured.notes)
