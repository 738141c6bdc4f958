"""A number that never changes, by whoever knew the load beforehand."""

from itertools import pairwise

from benchmarks.policies.loads import Case
from benchmarks.policies.peers.base import scale
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.observe.evaluation import Evaluation


class Static:
    """So many executors from the first decision on, and no others."""

    def __init__(self, executors: int) -> None:
        """Have a number."""
        self._executors = executors

    def decide(self, bounds: Bounds, evaluation: Evaluation, /) -> Hold | ScaleTo:
        """The same as ever."""
        return scale(bounds, evaluation, self._executors, "it never changes")


def keeping_up(case: Case, rate: float) -> int:
    """The fewest executors that keep up with a rate, on average and without noise; the maximum
    where none do.

    Args:
        rate: records per second.
    """
    dearest = max((cost for _, cost in case.application.costs), default=1.0)
    most = case.bounds.clamp(10**6)
    numbers = range(case.bounds.minimum, most + 1)
    enough = (n for n in numbers if case.application.capacity(n, dearest) >= rate)
    return next(enough, most)


def static_mean(case: Case, times: float) -> Static:
    """What the mean of the load needs, times something."""
    return Static(keeping_up(case, times * case.load.mean))


def static_peak(case: Case, times: float) -> Static:
    """What the highest batch interval of the load needs, times something."""
    interval, load = case.application.interval, case.load
    count = int(load.seconds / interval)
    arrived = [load.arrived(index * interval) for index in range(count + 1)]
    peak = max(after - before for before, after in pairwise(arrived)) / interval
    return Static(keeping_up(case, times * peak))
