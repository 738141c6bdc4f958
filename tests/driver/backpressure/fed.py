"""A stream whose batches are as large as the estimator allows."""

from collections.abc import Iterator
from dataclasses import replace

from dagster_sparkscale.driver.backpressure.measured import MeasuredBatch
from dagster_sparkscale.driver.backpressure.work import Work

PER_SECOND = 1e12
"""More than any limit here: the source has as much as one may take."""


class Fed:
    """An estimator, and a stream whose batches are as large as it allows.

    Batches take `overhead` seconds and `cost` for each record, of an interval of one second, and
    none waits, as those of Structured Streaming.
    """

    def __init__(self, overhead: float = 0.1, cost: float = 0.0002, **declared: float) -> None:
        self.overhead, self.cost = overhead, cost
        self.work = Work(**declared)
        self.at = 0.0

    @property
    def fitting(self) -> float:
        """The rate whose batches take 0.9 of the interval."""
        return (0.9 - self.overhead) / self.cost

    def batch(self, arrivals: float = PER_SECOND, times: float = 1.0, **more: object) -> float:
        """The rate after a batch that took so many times longer than it should."""
        records = int(min(self.work.rate, arrivals))
        took = times * (self.overhead + self.cost * records)
        self.at += max(1.0, took)
        self.work.completed(
            replace(
                MeasuredBatch(
                    self.at, records, max(1, round(1000 * took)), 1000, limit=self.work.rate
                ),
                **more,
            )
        )
        return self.work.rate

    def batches(self, number: int, **more: object) -> list[float]:
        return [self.batch(**more) for _ in range(number)]


def queued(waits: list[float], rate: float = 4000.0, took: float = 0.9) -> Iterator[MeasuredBatch]:
    """Batches of a DStream, one a second, that had to wait."""
    for number, wait in enumerate(waits, 1):
        ended = 100.0 + number + wait + took
        yield MeasuredBatch(ended, int(rate), int(1000 * took), 1000, int(1000 * wait), limit=rate)
