"""Spark's own rate estimator, number for number. Pure.

From `org.apache.spark.streaming.scheduler.rate.PIDRateEstimator` (SPARK-8834) and `RateController`,
which feeds it, of Spark 3.5 to 4.3. With r the rate it gave last, T the batch interval, and rho =
records / processing delay of the batch:

    rate = max(min_rate, r - proportional (r - rho) - integral * scheduling delay * rho / T
                           - derivative * (change of r - rho) / (time since the last estimate))

Known of it: the first batch gives no estimate, so the first ones are unlimited where no initial
rate is set; with the defaults it never rises above the last rho, and small batches, in which the
fixed costs of a batch outweigh its records, have a low one.
"""

import math

from .measured import Estimate, MeasuredBatch, check_rates


class PidRateEstimator:
    """Computes the same rates as Spark's class of that name, bit by bit.

    Args:
        interval_ms: the batch interval T, in milliseconds.
        proportional: weight of the last error, without a unit.
        integral: weight of what waits, without a unit.
        derivative: weight of how fast the error changes, in seconds.
        min_rate: records per second; no estimate is below.

    Raises:
        ValueError: an argument that Spark refuses too.
    """

    def __init__(
        self,
        interval_ms: int,
        proportional: float = 1.0,
        integral: float = 0.2,
        derivative: float = 0.0,
        min_rate: float = 100.0,
    ) -> None:
        if not interval_ms > 0:
            raise ValueError(f"interval_ms = {interval_ms!r}: must be above 0")
        _at_least_0(proportional=proportional, integral=integral, derivative=derivative)
        if not min_rate > 0:
            raise ValueError(f"min_rate = {min_rate!r}: must be above 0")
        self._interval = float(interval_ms)
        self._proportional, self._integral = float(proportional), float(integral)
        self._derivative, self._min_rate = float(derivative), float(min_rate)
        self._last: tuple[int, float, float] | None = None
        """When the last batch that counts completed, the rate and the error then."""

    def compute(
        self, time_ms: int, records: int, processing_ms: int, scheduling_ms: int
    ) -> float | None:
        """Records per second that can be taken, after a batch; None: no estimate.

        Args:
            time_ms: when it completed, epoch milliseconds. One that did not complete after those
                before gives no estimate, nor does one without records, or that took no time.
            records: what it had of the source.
            processing_ms: how long it was being processed.
            scheduling_ms: how long it had waited.
        """
        last_ms = -1 if self._last is None else self._last[0]
        if not (time_ms > last_ms and records > 0 and processing_ms > 0):
            return None
        # Whole numbers become floats before they are divided, as over there.
        processed = float(records) / float(processing_ms) * 1000
        if self._last is None:
            self._last = time_ms, processed, 0.0
            return None
        _, last_rate, last_error = self._last
        error = last_rate - processed
        waiting = float(scheduling_ms) * processed / self._interval
        change = (error - last_error) / (float(time_ms - last_ms) / 1000)
        rate = _larger(
            last_rate
            - self._proportional * error
            - self._integral * waiting
            - self._derivative * change,
            self._min_rate,
        )
        self._last = time_ms, rate, error
        return rate


class Pid:
    """Spark's estimator at work, within bounds; one for each source.

    As Spark's, it makes no difference of batches that failed, or were the first of their driver.

    Args:
        initial_rate: records per second to begin with; None: no limit, as in Spark.
        max_rate: records per second; no limit is above.

    Raises:
        ValueError: an argument is out of its bounds; the text names it.
    """

    def __init__(
        self,
        *,
        proportional: float = 1.0,
        integral: float = 0.2,
        derivative: float = 0.0,
        min_rate: float = 100.0,
        max_rate: float | None = None,
        initial_rate: float | None = None,
    ) -> None:
        check_rates(min_rate, max_rate, initial_rate)
        self._weights = (proportional, integral, derivative, min_rate)
        PidRateEstimator(1, *self._weights)  # refuses weights now that it would refuse later
        self._max_rate = max_rate
        self._rate = max_rate if initial_rate is None else initial_rate
        self._interval: int | None = None

    @property
    def rate(self) -> float | None:
        return self._rate

    def completed(self, seen: MeasuredBatch) -> Estimate | None:
        if seen.interval_ms != self._interval:
            # It knows one interval only. Another one is that of another program.
            self._estimator = PidRateEstimator(seen.interval_ms, *self._weights)
            self._interval = seen.interval_ms
        waited = seen.scheduling_ms or 0
        rate = self._estimator.compute(
            round(seen.completed_at * 1000), seen.records, seen.processing_ms, waited
        )
        if rate is None or not math.isfinite(rate):
            return None
        self._rate = rate if self._max_rate is None else min(rate, self._max_rate)
        return Estimate(
            self._rate,
            f"{seen.records:,} records in {seen.processing_ms / 1000:.1f} s, "
            f"which had waited {waited / 1000:.1f} s",
        )


def _larger(one: float, other: float) -> float:
    """Java's maximum: no number where one of the two is none."""
    return math.nan if math.isnan(one) or math.isnan(other) else max(one, other)


def _at_least_0(**weights: float) -> None:
    for name, value in weights.items():
        if not value >= 0:  # NaN is not, either
            raise ValueError(f"{name} = {value!r}: must be at least 0")
