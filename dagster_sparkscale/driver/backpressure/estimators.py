"""What estimators of rates have in common, and which there are. Pure.

An estimator says after each completed batch how many records per second the next ones can take. It
has no clock: all that it knows is what it is given.
"""

from typing import Protocol

from .measured import Estimate, MeasuredBatch
from .pid import Pid
from .plan import ESTIMATORS, EstimatorPlan
from .work import Work


class Estimator(Protocol):
    """Estimates a rate from batch to batch. For one thread."""

    @property
    def rate(self) -> float | None:
        """Records per second that are allowed now, before the first batch too; None: as many as
        there are."""

    def completed(self, seen: MeasuredBatch) -> Estimate | None:
        """What a batch has taught; None: nothing, and `rate` is as it was.

        Batches in the order in which they have completed.
        """


def estimator_of(plan: EstimatorPlan) -> Estimator:
    """The estimator that a plan names: `work`, for all sources of a query together, or `pid`, one
    for each source.

    Raises:
        ValueError: the estimator is unknown, or a field is out of its bounds.
    """
    if plan.estimator == "work":
        return Work(
            min_rate=plan.min_rate,
            max_rate=plan.max_rate,
            initial_rate=plan.initial_rate,
            target_ratio=plan.target_ratio,
        )
    if plan.estimator == "pid":
        return Pid(
            proportional=plan.proportional,
            integral=plan.integral,
            derivative=plan.derivative,
            min_rate=plan.min_rate,
            max_rate=plan.max_rate,
            initial_rate=plan.initial_rate,
        )
    raise ValueError(f"estimator = {plan.estimator!r}: must be one of {', '.join(ESTIMATORS)}")


__all__ = ["Estimate", "Estimator", "MeasuredBatch", "estimator_of"]
