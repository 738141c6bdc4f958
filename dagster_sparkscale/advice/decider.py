"""A policy as the sensor has it decide, for a simulated stream. Pure.

With what it has learned, and with its window before executors are removed. Not simulated are what
others than the policy say: steering, calendar, budget, and `min_gain`.
"""

from dataclasses import dataclass, field
from typing import Self

from dagster_sparkscale.autoscale.scale_down import NOTHING_ASKED, Asked, scale_down
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.declare.learner import Learner, Workload
from dagster_sparkscale.declare.policies import AutoscalePolicy, learned_of
from dagster_sparkscale.observe.evaluation import Evaluation
from dagster_sparkscale.observe.minutes import Minute


@dataclass
class AsInSensor:
    """What decides for one simulated stream, from its first minute to its last."""

    policy: AutoscalePolicy
    workload: Workload
    _learner: Learner | None = field(init=False)
    _asked: Asked | None = field(default=NOTHING_ASKED, init=False)
    _epoch: int = field(default=0, init=False)
    _at: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._learner = learned_of(self.policy, self.workload)

    def after(self, minute: Minute, /) -> Self:
        """Learn from one minute more."""
        self._epoch, self._at = minute.epoch or 0, minute.at
        if self._learner is not None:
            self._learner = self._learner.after(minute)
        return self

    def decide(self, bounds: Bounds, evaluation: Evaluation, /) -> Hold | ScaleTo:
        """The decision, as the sensor would make it."""
        decision = (self._learner or self.policy).decide(bounds, evaluation)
        decision, self._asked = scale_down(
            *(decision, self.policy, bounds, evaluation, self._asked, self._epoch, self._at)
        )
        return decision
