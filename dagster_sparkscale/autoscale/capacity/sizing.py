"""How many executors: the fewest executors and late minutes together, at a price. Pure.

    n + price * P(late on n)

is least, of all n with which what waits is not late: where it waits for too long already, they do
that within `DRAIN` seconds beside the rest; else no more queues up than may wait, until the next
decision has its effect.
"""

from math import ceil, floor, inf
from typing import NamedTuple

from dagster_sparkscale.autoscale.capacity.headroom import Curve, at
from dagster_sparkscale.autoscale.capacity.model import Cost

DRAIN = 20.0
"""Seconds within which what waits too long is done."""
_AHEAD = 120.0
"""Seconds for which a decision holds, until the next one has its effect."""
_CATCHING_UP = 2.0
"""Times the executors that keep up, for what waits where no number does it in time."""
ALMOST = 1 - 1e-9
"""Times a number of executors or tasks that is rounded up: what was computed is not exact."""
_LEAST = 0.8
"""Times the rate that is forecast, that executors are good for at least."""


class Tasks(NamedTuple):
    """How the work of a batch is divided."""

    slots: int
    """Tasks that one executor runs at a time."""
    pinned: int = 0
    """Places of tasks that receivers take for good."""
    tasks: int | None = None
    """Tasks of a batch; None: not known."""
    waves: bool = False
    """Whether they come in waves."""
    sure: bool = True
    """Whether it is known that more places than tasks bring nothing."""

    def w(self, executors: int) -> float:
        """The share of the work that lies on the longest path; inf: nobody works."""
        places = executors * self.slots - self.pinned
        if places <= 0:
            return inf
        if self.tasks is None or (places > self.tasks and not self.sure):
            return 1 / places
        if self.waves:
            return -(-self.tasks // places) / self.tasks
        return 1 / min(places, self.tasks)

    @property
    def smallest(self) -> int:
        """The fewest executors on which receivers leave a place for a task."""
        return self.pinned // self.slots + 1

    def executors(self, w: float) -> float:
        """Executors with which the longest path is no more than `w`, whole ones where tasks come in
        waves; inf: there are no such."""
        beyond = self.tasks is not None and w * self.tasks < ALMOST
        if w <= 0 or (beyond and self.sure):
            return inf
        if self.waves and self.tasks is not None and not beyond:
            places = -(-self.tasks // max(1, floor(min(1.0, w) * self.tasks / ALMOST)))
            return -(-(places + self.pinned) // self.slots)
        return (1 / w + self.pinned) / self.slots


class Need(NamedTuple):
    """What a stream needs executors for."""

    rate: float
    """Records per second that are forecast."""
    waiting: float
    """Seconds of them that wait beyond what is usual."""
    slack: float
    """Seconds that may wait without being late."""
    curve: Curve
    """The share of late time by capacity / rate."""
    price: float
    """Executor-minutes that a late minute costs."""
    least: int = 1
    """The fewest executors that are worth a try."""


class Size(NamedTuple):
    """Executors, and the sum that they come from."""

    executors: int
    keep_up: float
    """Executors that keep up with the forecast; inf: none do."""
    catch_up: float
    """Executors with which what waits is not late: more than keep up where it waits too long
    already, fewer where it may wait a little; inf: there are no such."""
    rate: float
    each: float
    """Records per second and executor, of `executors`."""


def size(need: Need, cost: Cost, tasks: Tasks, interval: float) -> Size:
    """The executors that a stream needs, at least one.

    Args:
        interval: the batch interval, seconds.
    """
    keep_up = needed(need.rate, cost, tasks, interval)
    spare = need.slack - need.waiting
    # What may queue up meanwhile without being late needs no executors now.
    times = 1 - spare / (_AHEAD if spare > 0 else DRAIN)
    catch_up = needed(need.rate * max(_LEAST, times), cost, tasks, interval)
    first = max(need.least, tasks.smallest)
    if catch_up == inf:
        # As many as bring most of what can be had; or more, where it is only thought that these do.
        found = _saturated(need.rate * interval, cost, tasks)
        if keep_up < inf:
            found = min(found, ceil(_CATCHING_UP * keep_up))
        found = max(found, first)
    else:
        least = max(first, ceil(catch_up * ALMOST))
        found = _cheapest(least, need, cost, tasks, interval)
    capacity = cost.records(tasks.w(found)) / interval
    return Size(found, keep_up, catch_up, need.rate, capacity / found)


def needed(rate: float, cost: Cost, tasks: Tasks, interval: float) -> float:
    """Executors that keep up with a rate; inf: none do."""
    if rate <= 0:
        return 0.0
    room = (1 - cost.overhead) / (rate * interval) - cost.alone
    if room <= 0:
        return inf
    if cost.shared <= 0:
        return 0.0
    return tasks.executors(room / cost.shared)


_ALL = 10**6
"""Executors that stand for as many as there are."""
_WORTH = 1.25
"""How much longer than with any number of executors a batch may take that none make fit."""


def _saturated(records: float, cost: Cost, tasks: Tasks) -> int:
    """The fewest executors with which the part of a batch that they share is small beside the
    rest, or its tasks all run at a time.

    Args:
        records: of a batch.
    """
    if cost.shared <= 0:
        return 1
    most = inf if tasks.tasks is None else tasks.executors(1 / tasks.tasks)
    alone = cost.alone
    if cost.overhead >= 1:
        # It does not fit without any record, so the records need not cost anything beside it.
        alone += cost.overhead / records
    wanted = tasks.executors((_WORTH - 1) * alone / cost.shared)
    return max(1, min(_ALL, ceil(min(most, wanted, _ALL))))


def _cheapest(least: int, need: Need, cost: Cost, tasks: Tasks, interval: float) -> int:
    """The number of the least sum, from `least` on."""
    best, best_sum, executors = least, inf, least
    waits = need.waiting / _AHEAD
    while executors < best_sum:
        w = tasks.w(executors)
        capacity = cost.records(w) / interval
        late = at(need.curve, capacity / need.rate - waits) if need.rate > 0 else 0.0
        if (total := executors + need.price * late) < best_sum:
            best, best_sum = executors, total
        if late <= 0:
            break
        waves = 0 if tasks.tasks is None else round(w * tasks.tasks)
        if tasks.waves and waves > 1 and tasks.tasks is not None:
            executors = ceil(tasks.executors((waves - 1) / tasks.tasks))
        elif tasks.sure and tasks.tasks is not None and w * tasks.tasks <= 1:
            break
        else:
            executors += 1
    return best
