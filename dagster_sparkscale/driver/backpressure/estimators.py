"""What estimators of rates have in common, and which there are. Pure.

An estimator says after each completed batch how many records per second the next ones can take. It
has no clock: all that it knows is what it is given.
"""

from typing import Protocol

from .measured import Estimate, MeasuredBatch
from .pid import Pid, PidRateEstimator
from .work import Work

KINDS = ("work", "pid")


class Estimator(Protocol):
    """Estimates a rate from batch to batch. For one thread."""

    @property
    def rate(self) -> float | None:
        """Records per second that are allowed now, before the first batch too; None: as many as
        there are."""
        ...

    def completed(self, seen: MeasuredBatch) -> Estimate | None:
        """What a batch has taught; None: nothing, and `rate` is as it was.

        Batches in the order in which they have completed.
        """
        ...


def estimator_of(
    kind: str,
    *,
    min_rate: float = 100.0,
    max_rate: float | None = None,
    initial_rate: float | None = None,
    target_ratio: float = 0.9,
    proportional: float = 1.0,
    integral: float = 0.2,
    derivative: float = 0.0,
) -> Estimator:
    """The estimator that a `BackpressurePolicy` declares, by its fields.

    Args:
        kind: `work`, for all sources of a query together, or `pid`, one for each source.

    Raises:
        ValueError: the kind is unknown, or a field is out of its bounds.
    """
    if kind == "work":
        return Work(
            min_rate=min_rate,
            max_rate=max_rate,
            initial_rate=initial_rate,
            target_ratio=target_ratio,
        )
    if kind == "pid":
        return Pid(
            proportional=proportional,
            integral=integral,
            derivative=derivative,
            min_rate=min_rate,
            max_rate=max_rate,
            initial_rate=initial_rate,
        )
    raise ValueError(f"estimator = {kind!r}: must be one of {', '.join(KINDS)}")


__all__ = ["KINDS", "Estimate", "Estimator", "MeasuredBatch", "PidRateEstimator", "estimator_of"]
