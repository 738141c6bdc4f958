"""The cheapest executors that a load could have been processed with, by whoever knew all of it.

Nobody can do better who decides as often, and whose executors take as long to start: that is what
policies are compared with. Dynamic programming (Bellman) over the number of executors and the
seconds by which batches wait; noise and failures are left out. Executors come `start_delay` after a
decision, and the oracle asks for them as long before; they leave at a decision.

Batches may wait as long as they are not late, so fewer executors are enough for a moment. Waits are
rounded up, and of too many only the most promising are followed: what comes of it is simulated, so
its late share is right, but somewhat cheaper executors may exist. Where batches may be late,
lateness has a price (Lagrange), which is searched for.
Pure.
"""

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Literal

from dagster_sparkscale.backtest.loads import Load
from dagster_sparkscale.backtest.machine import Machine
from dagster_sparkscale.backtest.measures import LATE, measures
from dagster_sparkscale.backtest.model import Application
from dagster_sparkscale.backtest.simulate import Run, run_of
from dagster_sparkscale.declare.bounds import Bounds

_GRAIN = 0.02
"""Batch intervals to which waits are rounded up."""
_MOST_WAITS = 24
"""Different waits that are followed at a time."""
_NEVER_LATE = 1e6
"""Executor-seconds that a late second costs where none is to be late: where that can't be, as few
are late as can be."""
_PRICES = (0.25, 256.0)
"""Executor-seconds that a late second costs, between which the price is searched for."""
_STEPS = 7
"""Prices that are tried."""
_SHARES = (1.0, 0.5, 0.0)
"""The share that is used of the time that batches may wait: batches of Structured Streaming that
wait come together, and are later than one by one."""
_FITS = 1e-9

Change = Literal["any", "fewer", "more"]


@dataclass(frozen=True, slots=True)
class Oracle:
    """The cheapest executors that knew the load."""

    executors: tuple[tuple[float, int], ...]
    """Since when so many work, in seconds from the beginning."""
    executor_hours: float
    """What they cost, simulated: whoever leaves does so after the batch in progress."""
    late: float
    """Percent of the time whose records came too late, as in `Measures`."""


def oracle(
    application: Application,
    load: Load,
    bounds: Bounds,
    *,
    interval: float = 60.0,
    late: float = 0.0,
) -> Oracle:
    """Find the fewest executor-seconds with which a load is processed in time.

    Args:
        bounds: its minimum and its maximum.
        interval: seconds between two decisions.
        late: percent of the time whose records may come too late.

    Raises:
        ValueError: the bounds have no maximum, or a limit keeps records back in the source: then
            executors do not decide how late they are.
    """
    if bounds.maximum is None:
        raise ValueError("bounds.maximum = None: must be a number")
    if application.max_records is not None:
        raise ValueError(
            f"max_records = {application.max_records}: must be None, as a limit keeps records back "
            "whatever executors there are"
        )
    if not 0 <= late < 100:
        raise ValueError(f"late = {late!r}: must be percent, at least 0 and below 100")
    quiet = replace(application, noise=0.0, batch_failures=0.0, executor_failures=0.0)
    fewest, most = bounds.clamp(0), bounds.clamp(bounds.maximum)
    parts = _parts(quiet, load, interval)
    tried = []
    for share in _SHARES:
        choice = _Choice(quiet, fewest, most, share)
        tried.append(_played(quiet, load, parts, choice.cheapest(parts, _NEVER_LATE)))
        if not tried[-1].late:
            break
    best = min(tried, key=lambda each: (each.late, each.executor_hours))
    if not late:
        return best
    low, high = map(math.log, _PRICES)
    for _ in range(_STEPS):
        price = (low + high) / 2
        found = _played(quiet, load, parts, choice.cheapest(parts, math.exp(price)))
        if found.late > late:
            low = price
            continue
        high = price
        if found.executor_hours < best.executor_hours or best.late > late:
            best = found
    return best


@dataclass(frozen=True, slots=True)
class _Part:
    """A time in which the number of executors is one."""

    begin: float
    seconds: float
    change: Change
    """How it may differ from the part before."""
    batches: tuple[tuple[float, float, float], ...]
    """When each is due, its records times their cost, and its records."""


def _parts(application: Application, load: Load, interval: float) -> list[_Part]:
    """The times between two moments at which executors may come or go."""
    phase = application.start_delay % interval
    ticks = int(load.seconds / interval + _FITS)
    moments: list[tuple[float, Change]] = [(0.0, "any")]
    for tick in range(1, ticks + 1):
        at = tick * interval
        moments += [(at, "fewer"), (at + phase, "more")] if phase else [(at, "any")]
    moments = [each for each in moments if each[0] < load.seconds - _FITS]
    due = _due(application, load)
    found, batch = [], next(due, None)
    ends = [*(at for at, _ in moments[1:]), load.seconds]
    changes: list[Change] = [*(change for _, change in moments[1:]), "any"]
    for (begin, change), end, following in zip(moments, ends, changes, strict=True):
        batches = []
        # A batch that begins as executors are told to leave still has them.
        while batch is not None and (
            batch[0] < end - _FITS or (following == "fewer" and batch[0] < end + _FITS)
        ):
            batches.append(batch)
            batch = next(due, None)
        found.append(_Part(begin, end - begin, change, tuple(batches)))
    return found


def _due(application: Application, load: Load) -> Iterator[tuple[float, float, float]]:
    """The batches of a load, where none takes longer than its interval."""
    interval, costs = application.interval, [(0.0, 1.0), *application.costs]
    number, cost = 1, 0
    before = 0.0
    while (due := number * interval) < load.seconds - _FITS:
        while cost + 1 < len(costs) and costs[cost + 1][0] <= due:
            cost += 1
        arrived = float(int(load.arrived(due) + 1e-6))
        yield due, (arrived - before) * costs[cost][1], arrived - before
        before, number = arrived, number + 1


class _Choice:
    """The choice between numbers of executors."""

    def __init__(self, application: Application, fewest: int, most: int, share: float) -> None:
        self._numbers = range(fewest, most + 1)
        self._interval = application.interval
        self._overhead = application.overhead
        self._slowest = application.sink_rate
        self._grain = _GRAIN * application.interval
        waits = share * (LATE - 2)
        self._slack = (1 + waits) * application.interval
        """Seconds from when a batch is due until it is done, above which it is late."""
        self._free = int(waits / _GRAIN)
        """Grains that a batch may wait and still not be late, where it takes one interval."""
        serial = application.serial
        self._each = [
            application.work * (serial + (1 - serial) * application.share(number))
            for number in self._numbers
        ]
        """Seconds for one record, by the number."""
        room = application.interval - application.overhead
        self._fitting = [room / each * (1 + _FITS) if each else math.inf for each in self._each]
        """Records of a batch, times their cost, that a number does within an interval."""
        self._sink = math.inf if self._slowest is None else room * self._slowest * (1 + _FITS)

    def cheapest(self, parts: Sequence[_Part], price: float) -> list[int]:
        """The number of executors of each part.

        Args:
            price: executor-seconds that a late second costs.
        """
        count = len(self._numbers)
        # By the wait in grains: the cost so far, by the number.
        costs: dict[int, list[float]] = {0: [0.0] * count}
        before: list[dict[int, list[float]]] = []
        origins: list[dict[tuple[int, int], int]] = []
        for part in parts:
            before.append(costs)
            costs, origin = self._worked(_changed(costs, part.change), part, price)
            origins.append(origin)
        return self._traced(parts, costs, before, origins, price)

    def _worked(
        self, costs: dict[int, list[float]], part: _Part, price: float
    ) -> tuple[dict[int, list[float]], dict[tuple[int, int], int]]:
        """The costs once a part is over, and of each state that waits, or did, its wait before."""
        paid = [number * part.seconds for number in self._numbers]
        if not part.batches:
            done = {
                wait: [cost + pay for cost, pay in zip(each, paid, strict=True)]
                for wait, each in costs.items()
            }
            return done, {
                (wait, index): wait for wait in costs if wait for index in range(len(paid))
            }
        heaviest = max(batch[1] for batch in part.batches)
        needed = bisect_left(self._fitting, heaviest)
        if max(batch[2] for batch in part.batches) > self._sink:
            needed = len(paid)
        found: dict[int, list[float]] = {}
        origin: dict[tuple[int, int], int] = {}
        if (plain := costs.get(0)) is not None:
            found[0] = [math.inf] * needed + [
                cost + pay for cost, pay in zip(plain[needed:], paid[needed:], strict=True)
            ]
        for wait, each in costs.items():
            drained = False
            for index in self._worth_trying(wait, needed, each):
                # More executors than drain it in time do so, too.
                after, late = (0, 0.0) if drained else self._waits(part, index, wait)
                drained = drained or (not after and not late)
                cost = each[index] + paid[index] + price * late
                row = found.setdefault(after, [math.inf] * len(paid))
                if cost < row[index]:
                    row[index] = cost
                    origin[after, index] = wait
        return _kept(found, price * self._grain, self._free), origin

    def _worth_trying(self, wait: int, needed: int, costs: Sequence[float]) -> Iterator[int]:
        """The numbers of executors with which batches wait, or do at first."""
        top = len(costs)
        # Without a wait, those that keep up have none after it either.
        most = top if wait else min(needed, top)
        yield from (index for index in range(most) if costs[index] < math.inf)

    def _waits(self, part: _Part, index: int, wait: int) -> tuple[int, float]:
        """The wait after a part, in grains, and the seconds that were late."""
        interval, each, overhead = self._interval, self._each[index], self._overhead
        free, late, due = part.batches[0][0] + wait * self._grain, 0.0, 0.0
        for due, weight, records in part.batches:
            busy = weight * each
            if self._slowest is not None:
                busy = max(busy, records / self._slowest)
            free = max(free, due) + overhead + busy
            if free - due > self._slack * (1 + _FITS):
                late += interval
        if math.isinf(free):
            return 10**9, late
        return max(0, math.ceil((free - due - interval) / self._grain - 1e-6)), late

    def _traced(
        self,
        parts: Sequence[_Part],
        costs: dict[int, list[float]],
        before: Sequence[dict[int, list[float]]],
        origins: Sequence[dict[tuple[int, int], int]],
        price: float,
    ) -> list[int]:
        """The numbers that have led to the lowest cost, from the last one back."""
        _, wait, index = min(
            (cost + price * max(0, wait - self._free) * self._grain, wait, index)
            for wait, each in costs.items()
            for index, cost in enumerate(each)
        )
        chosen = []
        for part, known, origin in zip(
            reversed(parts), reversed(before), reversed(origins), strict=True
        ):
            chosen.append(self._numbers[index])
            wait = origin.get((wait, index), 0)
            index = _before(known[wait], index, _allowed(part.change, wait))
        return chosen[::-1]


def _changed(costs: dict[int, list[float]], change: Change) -> dict[int, list[float]]:
    """The costs once the number may have changed."""
    found: dict[int, list[float]] = {}
    for wait in sorted(costs):
        each = costs[wait]
        how = _allowed(change, wait)
        if how == "any":
            row = [min(each)] * len(each)
        elif how == "more":
            row = list(accumulate(each, min))
        elif how == "fewer":
            row = list(accumulate(reversed(each), min))[::-1]
        else:
            row = list(each)
        # Who waits longer must be cheaper.
        for shorter in found.values():
            row = [
                cost if cost < other else math.inf for cost, other in zip(row, shorter, strict=True)
            ]
        if min(row) < math.inf:
            found[wait] = row
    return found


def _allowed(change: Change, wait: int) -> Change | None:
    """The change that is made. While batches wait nobody leaves: those that wait would be done by
    fewer than they are counted for."""
    if not wait:
        return change
    return None if change == "fewer" else "more"


def _before(costs: Sequence[float], index: int, change: Change | None) -> int:
    """The number before a change that has led to this one most cheaply; no change, if that may
    be."""
    if change is None:
        return index
    span = range(len(costs))
    if change == "more":
        span = range(index + 1)
    elif change == "fewer":
        span = range(index, len(costs))
    return min(span, key=lambda each: (costs[each], abs(each - index)))


def _kept(costs: dict[int, list[float]], each: float, free: int) -> dict[int, list[float]]:
    """The costs of the waits that promise most.

    Args:
        each: what a grain of waiting costs beyond those that are `free`.
    """
    alive = {wait: row for wait, row in costs.items() if min(row) < math.inf}
    if len(alive) <= _MOST_WAITS:
        return alive
    # What is late already will be late for as long as it waits, at least. Who waits least may have
    # the most executors, and can always go on.
    least = min(alive)
    promising = sorted(
        alive, key=lambda wait: (wait != least, min(alive[wait]) + each * max(0, wait - free))
    )
    return {wait: alive[wait] for wait in promising[:_MOST_WAITS]}


def _played(
    application: Application, load: Load, parts: Sequence[_Part], numbers: Sequence[int]
) -> Oracle:
    """What these numbers come to."""
    steps = [(part.begin, number) for part, number in zip(parts, numbers, strict=True)]
    changes = [steps[0], *(one for last, one in pairwise(steps) if one[1] != last[1])]
    run = follow(application, load, changes)
    found = measures(run)
    return Oracle(tuple(changes), found.executor_hours, found.late)


def follow(
    application: Application, load: Load, changes: Sequence[tuple[float, int]], *, seed: int = 0
) -> Run:
    """Run a load on executors that are there at these moments, in seconds from the beginning; the
    first of them is 0."""
    machine = Machine(application, load, changes[0][1], seed)
    for at, executors in changes[1:]:
        machine.advance(at)
        machine.have(executors)
    machine.advance(load.seconds)
    return run_of(machine, application, load, ())
