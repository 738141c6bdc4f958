"""A micro-batch stream under limits, simulated: what an estimator of rates does to it.

The stream is a server whose batches take `overhead + cost * records / executors` seconds, times
what chance adds; its source keeps what it may not give yet. Two kinds are simulated. As DStreams: a
batch is what came in an interval, batches are processed one after the other and wait for each
other, and a new limit holds from the moment in which it is known (Spark's JobScheduler with one job
at a time, and the rate limiter of its receivers). As Structured Streaming: a batch begins when the
one before is over, but not before its trigger, and takes what the limit allows for an interval;
none waits.

All times are seconds, rates are records per second. The same seed brings the same run.
"""

import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from dagster_sparkscale.driver.backpressure.estimators import Estimator, MeasuredBatch

OverTime = Callable[[float], float]
"""A number that depends on the seconds since the start."""


def always(value: float) -> OverTime:
    return lambda at: value


_ONE = always(1.0)


def steps(first: float, *changes: tuple[float, float]) -> OverTime:
    """`first`, then from each (seconds, value) on that value."""

    def value(at: float) -> float:
        return next((value for when, value in reversed(changes) if at >= when), first)

    return value


def ramp(first: float, last: float, begins: float, ends: float) -> OverTime:
    """`first` until `begins`, `last` from `ends` on, a straight line in between."""

    def value(at: float) -> float:
        share = (at - begins) / (ends - begins)
        return first + (last - first) * min(1.0, max(0.0, share))

    return value


@dataclass(frozen=True)
class Stream:
    """How long batches really take, and what is to be read."""

    arrivals: OverTime
    """Records per second that come to the source."""
    cost: OverTime
    """Seconds of one executor for a record."""
    executors: OverTime = _ONE
    interval: float = 1.0
    overhead: float = 0.1
    """Seconds that a batch takes whatever is in it."""
    noise: float = 0.0
    """Standard deviation of the logarithm of how long a batch takes."""
    stragglers: float = 0.0
    """Share of batches that take longer by `straggling`, as where a task is slow."""
    straggling: float = 1.0
    """How much longer these take, as a share of what they would have taken."""
    cold: float = 0.0
    """Seconds that the first batch takes longer."""
    queues: bool = True
    """As DStreams do; False: as Structured Streaming."""
    fastest: float = math.inf
    """Records per second that receivers take at most, without a limit."""

    def takes(self, records: float, at: float) -> float:
        """Seconds that a batch begun at `at` takes where chance adds nothing."""
        return self.overhead + self.cost(at) * records / self.executors(at)

    @property
    def chance(self) -> float:
        """By what chance multiplies that, in the mean."""
        return math.exp(self.noise**2 / 2) * (1 + self.stragglers * self.straggling)

    def fitting(self, at: float, share: float = 1.0) -> float:
        """The rate at which batches take `share` of the interval, in the mean."""
        left = share * self.interval / self.chance - self.overhead
        return max(0.0, left * self.executors(at) / self.cost(at) / self.interval)


@dataclass(frozen=True)
class Done:
    """A simulated batch."""

    planned: float
    """When its records were settled: for DStreams the end of its interval."""
    began: float
    ended: float
    records: int
    limit: float
    """Records that it could have had, by the limit; inf without one."""
    left: float
    """Records at the source when it was planned that it could not have."""

    @property
    def took(self) -> float:
        return self.ended - self.began


@dataclass(frozen=True)
class Run:
    """What came of a simulation."""

    stream: Stream
    batches: tuple[Done, ...]
    rates: tuple[tuple[float, float], ...]
    """(seconds, rate) of each change of the limit; inf: none."""

    def rate_at(self, at: float) -> float:
        return next((rate for when, rate in reversed(self.rates) if when <= at), math.inf)


def simulate(stream: Stream, estimator: Estimator, seconds: float, seed: int = 0) -> Run:
    """Run the stream for `seconds`; batches that are not over by then are not in the run."""
    simulation = _Simulation(stream, estimator, seed)
    return (simulation.queueing if stream.queues else simulation.triggered)(seconds)


class _Simulation:
    def __init__(self, stream: Stream, estimator: Estimator, seed: int) -> None:
        self._stream, self._estimator, self._seed = stream, estimator, seed
        self._rates = [(0.0, _allowed(estimator))]
        self._done: list[Done] = []
        self._backlog = 0.0
        self._first = True

    @property
    def _rate(self) -> float:
        return self._rates[-1][1]

    def queueing(self, seconds: float) -> Run:
        interval = self._stream.interval
        waiting: deque[tuple[float, int, float, float]] = deque()
        running: Done | None = None
        free = now = carried = 0.0
        for number in range(1, int(seconds / interval) + 1):
            boundary = number * interval
            taken, could = carried, 0.0
            while True:
                if running is None and waiting:
                    running = self._begin(waiting.popleft(), free)
                until = boundary if running is None else min(boundary, running.ended)
                could += min(self._rate, self._stream.fastest) * (until - now)
                taken += self._take(now, until)
                now = until
                if running is None or running.ended > boundary:
                    break
                self._complete(running)
                free, running = running.ended, None
            records = int(taken + 1e-6)
            carried = max(0.0, taken - records)
            waiting.append((boundary, records, could, self._backlog))
        return self._run()

    def triggered(self, seconds: float) -> Run:
        interval = self._stream.interval
        now = trigger = 0.0
        while True:
            # Nothing is processed without data; what came since is looked for at each trigger.
            begin = max(now, trigger)
            if begin >= seconds:
                return self._run()
            self._arrive(now, begin)
            limit = self._rate * interval
            records = int(min(limit, self._backlog) + 1e-6)
            self._backlog = max(0.0, self._backlog - records)
            trigger = (math.floor(begin / interval + 1e-9) + 1) * interval
            now = begin
            if records:
                done = self._begin((begin, records, limit, self._backlog), begin)
                self._arrive(begin, done.ended)
                now = done.ended
                if now >= seconds:
                    return self._run()
                self._complete(done)

    def _take(self, since: float, until: float) -> float:
        """Records that receivers take in a time in which the limit does not change."""
        self._arrive(since, until)
        most = min(self._rate, self._stream.fastest) * (until - since)
        taken = min(most, self._backlog) if until > since else 0.0
        self._backlog -= taken
        return taken

    def _arrive(self, since: float, until: float) -> None:
        """What comes in an interval comes as it does in the middle of that time."""
        interval = self._stream.interval
        while since < until:
            end = min(until, (math.floor(since / interval + 1e-9) + 1) * interval)
            self._backlog += self._stream.arrivals((since + end) / 2) * (end - since)
            since = end

    def _begin(self, planned: tuple[float, int, float, float], free: float) -> Done:
        formed, records, limit, left = planned
        began = max(formed, free)
        took = self._stream.takes(records, began)
        # Of its time, not of how many batches there were: every estimator meets the same chance.
        chance = random.Random(f"{self._seed} {round(formed / self._stream.interval)}")
        took *= math.exp(chance.gauss(0.0, self._stream.noise))
        if chance.random() < self._stream.stragglers:
            took *= 1 + self._stream.straggling
        if self._first and records:
            self._first, took = False, took + self._stream.cold
        return Done(formed, began, began + took, records, limit, left)

    def _complete(self, done: Done) -> None:
        cold = done.records > 0 and not any(before.records for before in self._done)
        self._done.append(done)
        queues = self._stream.queues
        self._estimator.completed(
            MeasuredBatch(
                completed_at=done.ended,
                records=done.records,
                processing_ms=round(done.took * 1000),
                scheduling_ms=round((done.began - done.planned) * 1000) if queues else None,
                interval_ms=round(self._stream.interval * 1000),
                cores=int(self._stream.executors(done.ended)),
                limit=done.limit if math.isfinite(done.limit) else None,
                cold=cold and self._stream.cold > 0,
            )
        )
        if _allowed(self._estimator) != self._rate:
            self._rates.append((done.ended, _allowed(self._estimator)))

    def _run(self) -> Run:
        return Run(self._stream, tuple(self._done), tuple(self._rates))


def _allowed(estimator: Estimator) -> float:
    return math.inf if estimator.rate is None else estimator.rate
