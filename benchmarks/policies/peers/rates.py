"""Rules by true processing rates: what a stream could process if it were never idle."""

import math

from benchmarks.policies.loads import Case
from benchmarks.policies.peers.base import Recent, arriving, clock, lag, scale
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.observe.evaluation import Evaluation


class Ds2:
    """Kalavri et al., Three steps is all you need (OSDI 2018): true processing rate = records /
    seconds of work; executors = ceil(what comes / (true rate / executors))."""

    def __init__(self, utilisation: float) -> None:
        """Have its setting.

        Args:
            utilisation: share of the true rate that is to be used; the paper has 1.
        """
        self._utilisation = utilisation

    def decide(self, bounds: Bounds, evaluation: Evaluation, /) -> Hold | ScaleTo:
        """One policy interval."""
        comes, true_rate = arriving(evaluation), evaluation.processed_rate
        at_work = evaluation.staying
        if comes is None or true_rate is None or not at_work:
            return Hold("no batch was done")
        each = true_rate / at_work * self._utilisation
        return scale(bounds, evaluation, math.ceil(comes / each), f"{comes:.0f} come")


class Flink:
    """Autoscaler of Flink's Kubernetes operator, by its source (`JobVertexScaler`,
    `ScalingMetricEvaluator`, `ScalingExecutor`).

    With lambda = what comes (of Kafka: what is consumed + growth of lag), capacity(u, restart) =
    lag / Tc + (restart) lambda Tr / Tc + lambda / u. Scale by capacity(target, True) / true rate,
    at least 0.4, once the true rate is below capacity(1.0, False) or above capacity(0.4, True).
    Scale-downs wait for an hour, and go to the most that was recommended in it; scale-ups need
    `stabilisation`, and metrics of `window`, since the last rescale. A scale-up that brought less
    than a tenth of what it should have is not repeated. Parallelism becomes a divisor of the number
    of partitions where there is one.

    Flink restarts for each rescale; a stream of Spark does not, and is not made to here.
    """

    CATCH_UP, RESTART = 1800.0, 300.0
    MOST_DOWN, EFFECTIVE = 0.4, 0.1
    LEAST_USED, MOST_USED = 0.4, 1.0

    def __init__(
        self,
        case: Case,
        target: float,
        window: float = 900.0,
        stabilisation: float = 300.0,
        down_delay: float = 3600.0,
        align: bool = True,
    ) -> None:
        """Have its settings; seconds.

        Args:
            target: utilisation.
            align: whether parallelism is to divide the number of partitions.
        """
        self._slots, self._tasks = case.application.workload.slots, case.application.tasks
        self._target, self._align = target, align
        self._stabilisation, self._down_delay = stabilisation, down_delay
        self._comes, self._true, self._lag = (Recent(window) for _ in range(3))
        self._changed = 0.0
        self._down_since: float | None = None
        self._most = 0
        self._up: tuple[float, float] | None = None
        """Of the last scale-up: the true rate before it, and the one it should have brought."""

    def decide(self, bounds: Bounds, evaluation: Evaluation, /) -> Hold | ScaleTo:
        """One round of its control loop."""
        comes, true_rate, waiting = arriving(evaluation), evaluation.processed_rate, lag(evaluation)
        current, now = evaluation.requested, clock(evaluation)
        if comes is None or true_rate is None or waiting is None or current is None:
            return Hold("no batch was done")
        if now - self._changed <= self._stabilisation:
            return Hold("it stabilises")
        for of, value in ((self._comes, comes), (self._true, true_rate), (self._lag, waiting)):
            of.add(now, value)
        target = self._wanted(bounds, current)
        if target > current:
            if self._was_in_vain():
                return Hold("the last scale-up brought too little")
            self._up = (self._true.mean, self._true.mean * target / current)
        elif target < current:
            if self._down_since is None:
                self._down_since, self._most = now, target
            self._most = max(self._most, target)
            if now - self._down_since < self._down_delay:
                return Hold("fewer have to wait")
            target, self._up = self._most, None
        self._down_since = None
        if target != current:
            self._changed = now
            for each in (self._comes, self._true, self._lag):
                each.clear()
        return scale(bounds, evaluation, target, "true rate and what comes")

    def _wanted(self, bounds: Bounds, current: int) -> int:
        true_rate = self._true.mean
        enough, much = self._capacity(self.MOST_USED, False), self._capacity(self.LEAST_USED, True)
        if enough <= true_rate <= much:
            return current
        factor = max(self.MOST_DOWN, self._capacity(self._target, True) / true_rate)
        return bounds.aim(self._aligned(math.ceil(round(factor * current, 9))))

    def _capacity(self, used: float, restart: bool) -> float:
        waiting = self._lag.values[-1]
        comes = max(0.0, self._comes.mean)
        lost = comes * self.RESTART if restart else 0.0
        return (waiting + lost) / self.CATCH_UP + comes / used

    def _aligned(self, executors: int) -> int:
        if not self._align:
            return executors
        wanted = executors * self._slots
        divisors = (n for n in range(wanted, self._tasks + 1) if self._tasks % n == 0)
        return math.ceil(next(divisors, wanted) / self._slots)

    def _was_in_vain(self) -> bool:
        if self._up is None:
            return False
        before, expected = self._up
        return self._true.mean - before < self.EFFECTIVE * (expected - before)
