"""By whoever knew the load: a number that never changes, and one that fits each minute."""

import math
from itertools import pairwise

from benchmarks.policies.loads import Case
from benchmarks.policies.peers.base import clock, scale
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


class Clairvoyant:
    """What keeps up with each batch until the next decision takes effect, with some headroom for
    noise. It is no peer: it shows what can be reached with decisions each minute by a perfect
    forecast of the load, and a fixed headroom. A wait that was there already it does not see."""

    def __init__(self, case: Case, times: float) -> None:
        """Have its setting.

        Args:
            times: what is kept up with / what comes.
        """
        self._case, self._times = case, times

    def decide(self, bounds: Bounds, evaluation: Evaluation, /) -> Hold | ScaleTo:
        """As many as the dearest batch needs that is formed before the next scale-up is there."""
        case, now = self._case, clock(evaluation)
        interval, costs = case.application.interval, case.application.costs
        ahead = evaluation.window + case.application.start_delay
        needed = bounds.minimum
        for index in range(math.ceil(ahead / interval) + 1):
            end = now + index * interval
            rate = (case.load.arrived(end) - case.load.arrived(end - interval)) / interval
            cost = next((factor for at, factor in reversed(costs) if at <= end), 1.0)
            needed = max(needed, keeping_up(case, self._times * rate, cost))
        return scale(bounds, evaluation, needed, "it will be needed")


def keeping_up(case: Case, rate: float, cost: float | None = None) -> int:
    """The fewest executors that keep up with a rate, on average and without noise; the maximum
    where none do.

    Args:
        rate: records per second.
        cost: times the usual work of a record; None: the most that it ever is.
    """
    if cost is None:
        cost = max((factor for _, factor in case.application.costs), default=1.0)
    most = case.bounds.clamp(10**6)
    numbers = range(case.bounds.minimum, most + 1)
    enough = (n for n in numbers if case.application.capacity(n, cost) >= rate)
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
