"""A simulated stream is decided on as the sensor decides."""

from dataclasses import dataclass
from typing import Self

from dagster_sparkscale import (
    AutoscalePolicy,
    Bounds,
    Evaluation,
    Hold,
    Minute,
    RatioPolicy,
    ScaleTo,
    Workload,
)
from dagster_sparkscale.advice.decider import AsInSensor

WORKLOAD = Workload(10.0)
LOW = Evaluation(60, uptime=3600, ratio=0.1, registered=4, requested=4)
HIGH = Evaluation(60, uptime=3600, ratio=1.6, registered=4, requested=4)
BOUNDS = Bounds(1, 8, 1)


@dataclass(frozen=True)
class Counting:
    minutes: int = 0

    def after(self, minute: Minute, /) -> Self:
        return type(self)(self.minutes + 1)

    def decide(self, bounds: Bounds, evaluation: Evaluation, /) -> Hold | ScaleTo:
        return Hold(str(self.minutes))


class Learning(AutoscalePolicy):
    def learner(self, workload: Workload, /) -> Counting:
        return Counting()


def test_a_policy_decides() -> None:
    decider = AsInSensor(RatioPolicy(), WORKLOAD).after(Minute(60))
    decision = decider.decide(BOUNDS, LOW)
    assert isinstance(decision, ScaleTo) and decision.target == 3


def test_what_it_has_learned_decides() -> None:
    decider = AsInSensor(Learning(), WORKLOAD)
    for number in range(3):
        decider = decider.after(Minute(60 * number))
    assert decider.decide(BOUNDS, LOW).reason == "3"


def test_executors_go_once_its_window_before_that_is_over() -> None:
    policy = RatioPolicy(scale_down_window="5min")
    decider = AsInSensor(policy, WORKLOAD)
    targets = []
    for minute in range(8):
        decision = decider.after(Minute(60 * minute, epoch=1)).decide(BOUNDS, LOW)
        targets.append(decision.target if isinstance(decision, ScaleTo) else None)
    assert targets == [None] * 5 + [3] * 3


def test_more_executors_wait_for_no_window() -> None:
    decider = AsInSensor(RatioPolicy(scale_down_window="5min"), WORKLOAD).after(Minute(60, epoch=1))
    assert isinstance(decider.decide(BOUNDS, HIGH), ScaleTo)
