"""Kubernetes' HorizontalPodAutoscaler, and the rules that have it scale streams."""

import math

from benchmarks.policies.peers.base import Recent, arriving, clock, lag, scale
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.observe.evaluation import Evaluation

MOST_PODS, MOST_TIMES = 4, 2
"""Pods that are added in 15 s, or times the number that there is: the larger of the two."""
TOLERANCE = 0.1


class Behaviour:
    """What the controller makes of recommendations, by the source of `pkg/controller/podautoscaler`
    with the default `behavior`: down to the largest of the last 300 s, up at once, by at most 4
    pods or to twice as many each 15 s."""

    def __init__(self, stabilisation: float) -> None:
        """Begin without recommendations.

        Args:
            stabilisation: seconds of `scaleDown.stabilizationWindowSeconds`.
        """
        self._recommended = Recent(stabilisation)

    def of(self, now: float, current: int, recommended: int) -> int:
        """The number that is asked for.

        Args:
            current: pods asked for at present.
        """
        self._recommended.add(now, recommended)
        if recommended >= current:
            return min(recommended, max(current + MOST_PODS, MOST_TIMES * current))
        return min(current, max(int(value) for value in self._recommended.values))


def proportional(ready: int, usage: float, tolerance: float) -> int:
    """`ceil(ready * usage)`, or the present number where usage is near enough to 1.

    Args:
        usage: metric / target.
    """
    if abs(1 - usage) <= tolerance:
        return ready
    # Rid of what floats make of 10 * 1.1.
    return math.ceil(round(ready * usage, 9))


class OnRatio:
    """HPA, with R as its metric: ceil(ready * R / target), and what `Behaviour` makes of it."""

    def __init__(
        self, target: float, stabilisation: float = 300.0, tolerance: float = TOLERANCE
    ) -> None:
        """Have its settings."""
        self._target, self._tolerance = target, tolerance
        self._behaviour = Behaviour(stabilisation)

    def decide(self, bounds: Bounds, evaluation: Evaluation, /) -> Hold | ScaleTo:
        """One sync, each 15 s."""
        ready, current = evaluation.staying, evaluation.requested
        if evaluation.ratio is None or ready is None or current is None:
            return Hold("it has no metric")
        usage = evaluation.ratio / self._target
        wanted = bounds.aim(proportional(ready, usage, self._tolerance))
        target = self._behaviour.of(clock(evaluation), current, wanted)
        return scale(bounds, evaluation, target, f"R {evaluation.ratio:.2f}")


class Keda:
    """KEDA's scaler for Kafka: ceil(lag / lagThreshold), through an HPA, which holds where lag /
    (threshold * ready) is within its tolerance. Its cooldown is for the step to none, which streams
    don't take; what comes in between is HPA's."""

    def __init__(self, threshold: float, stabilisation: float = 300.0) -> None:
        """Have its settings.

        Args:
            threshold: records.
        """
        self._threshold = threshold
        self._behaviour = Behaviour(stabilisation)

    def decide(self, bounds: Bounds, evaluation: Evaluation, /) -> Hold | ScaleTo:
        """One sync."""
        waiting, current = lag(evaluation), evaluation.requested
        ready = evaluation.staying
        if waiting is None or current is None or not ready:
            return Hold("it has no metric")
        wanted = ready
        if abs(1 - waiting / (self._threshold * ready)) > TOLERANCE:
            wanted = math.ceil(waiting / self._threshold)
        target = self._behaviour.of(clock(evaluation), current, bounds.aim(wanted))
        return scale(bounds, evaluation, target, f"lag {waiting:.0f}")


class Varga:
    """Varga, Balassi and Kiss, Towards autoscaling of Apache Flink jobs (2021): an HPA on two
    metrics, of which the larger result counts: utilisation, which can't be above 1, and the
    relative change of lag, 1 + (its growth / what is processed), where there is lag worth
    mentioning: more than two batches of it."""

    def __init__(
        self, target: float, lag_target: float = 1.0, stabilisation: float = 300.0
    ) -> None:
        """Have its settings."""
        self._target, self._lag_target = target, lag_target
        self._behaviour = Behaviour(stabilisation)
        self._lags = Recent(61.0)

    def decide(self, bounds: Bounds, evaluation: Evaluation, /) -> Hold | ScaleTo:
        """One sync, each 15 s; lag as it changed in a minute."""
        waiting, ready, current = lag(evaluation), evaluation.staying, evaluation.requested
        rate = arriving(evaluation)
        if evaluation.ratio is None or waiting is None or not rate or not ready or current is None:
            return Hold("it has no metric")
        now = clock(evaluation)
        self._lags.add(now, waiting)
        wanted = proportional(ready, min(1.0, evaluation.ratio) / self._target, TOLERANCE)
        interval = evaluation.batch_interval or 0.0
        if waiting > 2 * rate * interval:
            # What is processed is what comes, less what lag grows by.
            growth = self._lags.slope
            change = 1 + growth / max(rate - growth, 0.1 * rate)
            wanted = max(wanted, proportional(ready, change / self._lag_target, TOLERANCE))
        target = self._behaviour.of(now, current, bounds.aim(wanted))
        return scale(bounds, evaluation, target, f"R {evaluation.ratio:.2f}, lag {waiting:.0f}")
