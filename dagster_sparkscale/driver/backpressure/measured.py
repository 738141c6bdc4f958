"""What estimators are given, and what they give. Pure."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MeasuredBatch:
    """A completed batch, of one source or of all sources of a query together.

    Raises:
        ValueError: a number is none, or can't be; the text names it.
    """

    completed_at: float
    """Seconds since the epoch, by the driver's clock."""
    records: int
    processing_ms: int
    interval_ms: int
    """The batch interval."""
    scheduling_ms: int | None = None
    """How long it waited before it was begun. None: batches do not queue, as those of Structured
    Streaming."""
    cores: int | None = None
    """The cores of the executors that were registered when it completed, without those that
    receivers take; None: not known."""
    limit: float | None = None
    """Records that it might have at most; None: there was no limit, or it is not known."""
    failed: bool = False
    cold: bool = False
    """Whether it was the first batch with work of its query in this driver."""

    def __post_init__(self) -> None:
        _at_least(0, completed_at=self.completed_at, records=self.records)
        _at_least(0, processing_ms=self.processing_ms, scheduling_ms=self.scheduling_ms)
        _at_least(0, cores=self.cores, limit=self.limit)
        _at_least(1, interval_ms=self.interval_ms)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What may be taken from now on."""

    rate: float
    """Records per second."""
    reason: str
    """How it came to that, for people."""


def _at_least(least: int, **values: float | None) -> None:
    for name, value in values.items():
        if value is not None and not least <= value < math.inf:  # NaN is not, either
            raise ValueError(f"{name} = {value!r}: must be a number, {least} or above")


def check_rates(
    min_rate: float, max_rate: float | None = None, initial_rate: float | None = None
) -> None:
    """Refuse bounds that contradict each other. All are records per second.

    Raises:
        ValueError: naming the field, its value and what would be right.
    """
    rates = {"min_rate": min_rate, "max_rate": max_rate, "initial_rate": initial_rate}
    for name, value in rates.items():
        if value is not None and not 0 < value < math.inf:
            raise ValueError(f"{name} = {value!r}: must be a number of records per second above 0")
    for name in ("max_rate", "initial_rate"):
        if (rate := rates[name]) is not None and rate < min_rate:
            raise ValueError(f"{name} = {rate:g}: must be at least min_rate = {min_rate:g}")
    if initial_rate is not None and max_rate is not None and initial_rate > max_rate:
        raise ValueError(
            f"initial_rate = {initial_rate:g}: must be at most max_rate = {max_rate:g}"
        )
