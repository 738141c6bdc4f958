"""What it means for a decision that a query takes all that a limit lets it. Pure.

Under a limit R says how large the limit is: an estimator sizes batches so that they just fit into
their interval. How much more waits is not in R. So a query at its limit counts as overloaded,
unless the lag is known and short enough, or no number of executors would move that limit.
"""

from dagster_sparkscale.autoscale.lag import OVERDUE_IN_VAIN, nothing_to_do
from dagster_sparkscale.observe.evaluation import Evaluation

MOST_TIMES = 4.0
"""How much more than it takes a query may be thought to need, by a lag that grows."""

_FIXED = {
    "set": "the limit is set: raise it",
    "tuned": "the limit was tuned: set another by sparkscale retune --set, or put it back",
    "max_rate": "the limit is the max_rate of its backpressure: raise that",
    "source": "the options of its source bound it: raise those",
}
"""The origins of limits that no executor moves, and what would."""
_DIGITS = (0, 2)
"""Behind the point, of a limit, and of one that is below 10."""


def ratio_of(seen: Evaluation) -> float:
    """R of the query that stands at its limit."""
    assert seen.ratio is not None
    return next((load.ratio for load in seen.loads if load.query == seen.throttled), seen.ratio)


def stands_at(seen: Evaluation) -> str:
    """Say that the query stands at its limit."""
    limit = seen.throttled_limit
    how_much = "" if limit is None else f" of {limit:,.{_DIGITS[limit < 10]}f} records/s"
    if seen.throttled_lag is None and seen.lag_query != seen.throttled:
        how_much += " (what waits is not known)"
    return (
        f"input of query {seen.throttled!r} stands at its limit{how_much}, R {ratio_of(seen):.2f}"
    )


def in_vain(scale_down_ratio: float, seen: Evaluation) -> str | None:
    """Why more executors would not let such a query take more, in words; None: they may.

    Only for a query whose batches fit into their interval: others need more whatever limits them.
    """
    if nothing_to_do(seen):
        return OVERDUE_IN_VAIN
    if seen.overdue is not None:
        return None
    if (bound := _fixed(seen)) is not None:
        return f"more executors would not read more; {bound}"
    if ratio_of(seen) <= scale_down_ratio:
        return f"R is at or below {scale_down_ratio:g}: {what_bounds(seen)}"
    return None


def what_bounds(seen: Evaluation) -> str:
    """What bounds a query whose executors are idle most of the time, in words."""
    return _fixed(seen) or ("the executors have time left, which the estimator does not use (yet)")


def fixed_behind(seen: Evaluation) -> str | None:
    """Why the query that is furthest behind would read no more with more executors: it stands at a
    limit that none of them moves, and its batches fit. None: it may read more."""
    if seen.throttled is None or seen.throttled != seen.lag_query:
        return None
    if seen.overdue is not None or seen.ratio is None:
        return None
    bound = _fixed(seen)
    return bound and f"{stands_at(seen)}, and more executors would not read more; {bound}"


def _fixed(seen: Evaluation) -> str | None:
    """Name the limit that no executor moves, and what would; None: executors may move it."""
    if seen.throttled_by not in _FIXED:
        return None
    who = f" ({seen.throttled_who})" if seen.throttled_who else ""
    return f"{_FIXED[seen.throttled_by]}{who}"


def demand(ratio: float, seen: Evaluation) -> float:
    """R as it would be without the limit, as far as the lag tells; else `ratio`. So it is where no
    executor moves the limit.

    Of each second that arrives, `1 + catching_up` are taken; so all that arrives would take
    `ratio / (1 + catching_up)`.
    """
    if seen.throttled is None or seen.throttled_by in _FIXED:
        return ratio
    if seen.lag_query != seen.throttled or seen.catching_up is None:
        return ratio
    taken = min(1.0, max(1 + seen.catching_up, 1 / MOST_TIMES))
    return ratio / taken
