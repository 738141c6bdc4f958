"""`python -m benchmarks.policies.bound`: what decisions each minute can reach on the bursty loads.

No policy can be made of it: it knows how much executors take, what came and what waits, without
any noise, and each load has of some settings the one that was best for it, seen from its end: how
many times the latest rate it keeps up with, how many executors it always has, for how many minutes
it keeps them. Of the time to come it knows nothing else. Which setting each load has minimises the
cost in the mean of the loads, at so much lateness in the mean.
"""

import statistics
from functools import partial
from itertools import product

from benchmarks.policies import playing
from benchmarks.policies.loads import Case
from benchmarks.policies.peers.base import clock, scale
from benchmarks.policies.peers.static import keeping_up
from benchmarks.policies.results import HALVES
from benchmarks.policies.running import knowing, row
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.observe.evaluation import Evaluation

_TIMES = (0.85, 1.0, 1.15, 1.3, 1.6, 2.2, 3.2)
_SHARES = (0.0, 0.5, 0.8, 0.9, 0.97)
"""Of the minutes of a load, that the executors which are always there keep up with."""
_MINUTES = (1, 4)
_LATE = (2.0, 1.5, 1.0)
"""Percent, in the mean."""
_CATCH_UP = 30.0
"""Seconds in which it does what has waited for more than an interval."""


class Seeing:
    """Keeps up with some times the latest rate, and catches up."""

    def __init__(self, case: Case, times: float, always: int, minutes: int) -> None:
        """Have its setting."""
        self._case, self._times, self._always, self._minutes = case, times, always, minutes
        self._at = self._waiting = 0.0
        self._asked = [(0.0, case.bounds.initial)]
        """Since when so many executors are there."""
        self._wanted: list[int] = []

    def decide(self, bounds: Bounds, evaluation: Evaluation, /) -> Hold | ScaleTo:
        """The most that was wanted in these minutes."""
        now, came = clock(evaluation), self._case.load.arrived
        application = self._case.application
        step = application.interval
        while self._at < now - 1e-9:
            there = [number for since, number in self._asked if since <= self._at][-1]
            done = step * application.capacity(there, 1.0)
            self._waiting = max(0.0, self._waiting + came(self._at + step) - came(self._at) - done)
            self._at += step
        newest = (came(now) - came(now - 2 * step)) / (2 * step)
        rate = max(newest, (came(now) - came(now - 60.0)) / 60.0)
        late = max(0.0, self._waiting - step * rate)
        needed = max(self._times * rate, rate + late / _CATCH_UP if late else 0.0)
        self._wanted = [*self._wanted, keeping_up(self._case, needed)][-self._minutes :]
        target = max(self._always, *self._wanted)
        delay = application.start_delay if target > self._asked[-1][1] else 0.0
        self._asked = [*self._asked, (now + delay, target)][-4:]
        return scale(bounds, evaluation, target, "it would keep up with more than the latest rate")


def points(case: Case) -> list[tuple[float, float]]:
    """Percent late and times the oracle of each setting."""
    hours, load = knowing(case).executor_hours, case.load
    count = int(load.seconds / 60.0)
    rates = sorted(
        (load.arrived(60.0 * (n + 1)) - load.arrived(60.0 * n)) / 60 for n in range(count)
    )
    shares = (rates[int(share * (count - 1))] if share else 0.0 for share in _SHARES)
    always = sorted({keeping_up(case, rate) for rate in shares})
    found = []
    for setting in product(_TIMES, always, _MINUTES):
        one = row(case, hours, partial(Seeing, case, *setting), 60.0)
        found.append((one.late, one.cost))
    return found


def cheapest(loads: list[list[tuple[float, float]]], most: float) -> tuple[float, float]:
    """The means of late and cost, of settings that cost least at no more than so much lateness."""
    found = []
    for number in range(400):
        price = 10 ** (number / 100 - 3)
        chosen = [min(of, key=lambda each: each[1] + price * each[0]) for of in loads]
        late, cost = (statistics.fmean(values) for values in zip(*chosen, strict=True))
        if late <= most:
            found.append((cost, late))
    cost, late = min(found)
    return late, cost


def main() -> None:
    for half in HALVES:
        loads = [points(case) for case in playing.of(half) if case.group == "bursty"]
        for most in _LATE:
            late, cost = cheapest(loads, most)
            print(f"{half:7} at most {most} % late: {late:.2f} %, {cost:.3f} of the oracle")


if __name__ == "__main__":
    main()
