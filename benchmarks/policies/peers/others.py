"""Rules of other systems for streams: Dhalion of Heron, and Numaflow."""

import math

from benchmarks.policies.peers.base import Recent, clock, lag, scale
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.observe.evaluation import Evaluation


class Dhalion:
    """Floratou et al., Dhalion (VLDB 2017): with back pressure for a share b of the time, times 1 +
    b / (1 - b); without any, and with next to nothing that waits, times 0.8. What led to back
    pressure is not tried again for a while.

    A stream of micro-batches holds its input back for 1 - 1 / R of the time, where R is above 1.
    """

    def __init__(self, down: float = 0.8, not_again: float = 3600.0) -> None:
        """Have its settings.

        Args:
            down: factor.
            not_again: seconds for which no fewer are tried after fewer were too few.
        """
        self._down, self._not_again = down, not_again
        self._went_down = False
        self._blocked_until = 0.0

    def decide(self, bounds: Bounds, evaluation: Evaluation, /) -> Hold | ScaleTo:
        """One invocation."""
        ratio, current, now = evaluation.ratio, evaluation.requested, clock(evaluation)
        ratio = max(ratio or 0.0, evaluation.overdue or 0.0)
        if not ratio or current is None:
            return Hold("no batch was done")
        if ratio > 1:
            if self._went_down:
                self._blocked_until = now + self._not_again
            self._went_down = False
            pressure = 1 - 1 / ratio
            target = math.ceil(round(current * (1 + pressure / (1 - pressure)), 9))
            return scale(bounds, evaluation, target, f"back pressure {pressure:.0%}")
        self._went_down = False
        if (evaluation.pending_batches or 0) > 1 or now < self._blocked_until:
            return Hold("no back pressure")
        decision = scale(bounds, evaluation, math.floor(current * self._down), "nothing waits")
        self._went_down = isinstance(decision, ScaleTo)
        return decision


class Numaflow:
    """Numaflow's autoscaling of a source, by its source: round(pending / rate / target seconds *
    ready), of the last 120 s; at most 2 more or fewer at a time, and 90 s between two changes."""

    MOST, COOLDOWN, LOOK_BACK = 2, 90.0, 120.0

    def __init__(self, seconds: float = 20.0, most: int = MOST) -> None:
        """Have its settings.

        Args:
            seconds: `targetProcessingSeconds`.
            most: `replicasPerScaleUp` and `replicasPerScaleDown`.
        """
        self._seconds, self._most = seconds, most
        self._pending, self._rates = Recent(self.LOOK_BACK), Recent(self.LOOK_BACK)
        self._changed = -math.inf

    def decide(self, bounds: Bounds, evaluation: Evaluation, /) -> Hold | ScaleTo:
        """One round."""
        pending, rate, now = lag(evaluation), evaluation.input_rate, clock(evaluation)
        ready, current = evaluation.staying, evaluation.requested
        if pending is None or not rate or not ready or current is None:
            return Hold("nothing was processed")
        self._pending.add(now, pending)
        self._rates.add(now, rate)
        if now - self._changed < self.COOLDOWN:
            return Hold("it cools down")
        seconds = self._pending.mean / self._rates.mean
        desired = math.floor(seconds / self._seconds * ready + 0.5)
        target = max(current - self._most, min(current + self._most, desired))
        decision = scale(bounds, evaluation, target, f"{seconds:.0f} s of records wait")
        if isinstance(decision, ScaleTo):
            self._changed = now
        return decision
