"""How long a batch takes by what is in it: overhead + cost * units, learned batch by batch. Pure.

A Kalman filter (Kalman 1960) of the two. It forgets only in the direction in which a batch says
something (Kulhavy 1987, restricted exponential forgetting): a small batch renews what is known of
the overhead and leaves the cost alone, a large one their sum. It forgets the faster the more its
last errors had one sign (Trigg and Leach 1967, adaptive response rate): little where batches differ
by chance, much where they become slower or faster. How much they differ by chance is learned too,
and what chance does not explain is a surprise. What to make of one is for whoever asks.
"""

import math
from dataclasses import dataclass, replace

LEAST_GAIN, MOST_GAIN = 0.05, 0.4
"""What the newest batch weighs, where errors are chance and where all have one sign."""
TRACKING = 0.1
"""What the newest error weighs in whether they have one sign."""
SURPRISING = 3.0
"""Standard deviations that are no chance any more."""
LEAST_SURPRISE = 0.25
"""What is nearer to the expected time than this share of it is no surprise."""
FIRST_OVERHEAD = 0.2
"""The share of the interval that a first batch's overhead may have."""
NOISE, LEAST_NOISE, MOST_NOISE = 0.1, 0.03, 0.5
"""Standard deviation of a batch's time, as a share of it: at first, and what it is kept within."""
NOISE_GAIN = 0.1
AFTER_LEAP = 0.05
"""Standard deviation of a leap as a share of it; what chance may be in it comes on top."""
CLOCK = 0.005
"""Seconds by which any measured time may be off; nothing is expected to take less."""


@dataclass(frozen=True, slots=True)
class CostModel:
    """What is believed of batches, and how firmly. Units are records."""

    overhead: float
    """Seconds that a batch takes without any units."""
    cost: float
    """Seconds per unit."""
    var_overhead: float
    covariance: float
    var_cost: float
    noise: float = NOISE
    """Standard deviation of a batch's time by chance, as a share of it."""
    error: float = 0.0
    """Mean of the last errors, as shares of what was expected."""
    size: float = 0.0
    """Mean of their sizes."""

    @classmethod
    def of_first(cls, units: float, seconds: float, interval: float) -> "CostModel":
        """After a single batch: its time is overhead, or cost, or both.

        Args:
            units: above 0.
            seconds: above 0.
            interval: the batch interval in seconds.
        """
        overhead = min(seconds / 2, FIRST_OVERHEAD * interval)
        unknown = (overhead / 2) ** 2
        return cls(
            overhead,
            (seconds - overhead) / units,
            var_overhead=unknown + (NOISE * seconds) ** 2,
            covariance=-unknown / units,
            var_cost=unknown / units**2,
        )

    def seconds(self, units: float) -> float:
        """How long a batch is expected to take."""
        return max(CLOCK, self.overhead + self.cost * units)

    def uncertainty(self, units: float) -> float:
        """Standard deviation of `seconds` by what is not known; chance comes on top."""
        variance = self.var_overhead + 2 * units * self.covariance + units**2 * self.var_cost
        return math.sqrt(max(0.0, variance))

    def surprise(self, units: float, seconds: float) -> int:
        """1: a batch took longer than chance explains, -1: shorter, 0: neither."""
        expected = self.seconds(units)
        off = seconds - expected
        spread = math.hypot(self.uncertainty(units), self._chance(expected))
        if abs(off) <= max(SURPRISING * spread, LEAST_SURPRISE * expected):
            return 0
        return 1 if off > 0 else -1

    def learned(self, units: float, seconds: float) -> "CostModel":
        """After one more batch. One that surprises counts as one that was a little off."""
        expected = self.seconds(units)
        chance, known = self._chance(expected), self.uncertainty(units)
        off = seconds - expected
        if self.surprise(units, seconds):
            off = math.copysign(math.hypot(chance, known), off)
        relative = off / expected
        error = self.error + TRACKING * (relative - self.error)
        size = self.size + TRACKING * (abs(relative) - self.size)
        one_sign = abs(error) / size if size > 0 else 0.0
        weight = max(LEAST_GAIN, MOST_GAIN * one_sign**2)
        # Forgotten is of the variance of what it measures so much that it weighs as it should.
        variance = max(known**2, weight / (1 - weight) * chance**2)
        return replace(
            self._measured(units, off, chance, variance),
            noise=self._noise((relative - self.error) ** 2 - (known / expected) ** 2),
            error=error,
            size=size,
        )

    def leapt(self, units: float, seconds: float, share: float = 1.0) -> "CostModel":
        """Assume that batches take from now on as long as this one did.

        The larger of overhead and cost, in a batch of that size, gets nearly all of the change. A
        small batch, which is mostly overhead, says nothing of the cost.

        Args:
            share: 0.5 for half of the way.
        """
        off = share * (seconds - self.seconds(units))
        to_overhead = off * self.of_overhead(units)
        to_cost = (off - to_overhead) / units
        doubt = min(
            MOST_NOISE, math.hypot(AFTER_LEAP, self._chance(seconds) / max(abs(off), CLOCK))
        )
        return replace(
            self._moved(to_overhead, to_cost, units),
            var_overhead=self.var_overhead + (doubt * to_overhead) ** 2,
            var_cost=self.var_cost + (doubt * to_cost) ** 2,
            error=0.0,
            size=0.0,
        )

    def turned(self, about: float, doubt: float, units: float, seconds: float) -> "CostModel":
        """After a batch of another size than `about`: it shows what of the time that one of `about`
        takes is overhead and what cost, as far as chance lets it.

        Args:
            about: units of a batch whose time is known.
            doubt: standard deviation, in seconds, of what of that time is overhead.
        """
        doubted = replace(
            self,
            var_overhead=self.var_overhead + doubt**2,
            covariance=self.covariance - doubt**2 / about,
            var_cost=self.var_cost + (doubt / about) ** 2,
            error=0.0,
            size=0.0,
        )
        off = seconds - self.overhead - self.cost * units
        variance = doubted.uncertainty(units) ** 2
        return doubted._measured(units, off, self._chance(seconds), variance)

    def noisier(self) -> "CostModel":
        """After a surprise that was chance: batches like it come now and then."""
        return replace(self, noise=self._noise(4 * self.noise**2))

    def scaled(self, factor: float, doubt: float = 0.0) -> "CostModel":
        """Assume a cost that is `factor` times as high.

        Args:
            doubt: standard deviation of the new cost, as a share of it.
        """
        cost = self.cost * factor
        return replace(
            self,
            cost=cost,
            covariance=self.covariance * factor,
            var_cost=self.var_cost * factor**2 + (doubt * cost) ** 2,
        )

    def of_overhead(self, units: float) -> float:
        if self.overhead <= 0:
            return 0.0
        return 1 / (1 + min(1e9, self.cost * units / self.overhead) ** 4)

    def _chance(self, seconds: float) -> float:
        return math.hypot(self.noise * seconds, CLOCK)

    def _noise(self, variance: float) -> float:
        """After a batch that was off by that, as a share, more than what is not known explains."""
        noise = math.sqrt(self.noise**2 + NOISE_GAIN * (max(0.0, variance) - self.noise**2))
        return min(MOST_NOISE, max(LEAST_NOISE, noise))

    def _measured(self, units: float, off: float, chance: float, variance: float) -> "CostModel":
        """What Kalman has after a batch that was off by that many seconds.

        Args:
            variance: of what is believed of its time. Above what it is: with
                P + (variance / known^2 - 1) P H H' P / known^2 for P.
        """
        # Covariances of what this batch measures with overhead and cost.
        of_overhead = self.var_overhead + units * self.covariance
        of_cost = self.covariance + units * self.var_cost
        known = self.uncertainty(units)
        ratio = variance / known**2 if known > 0 else 0.0
        gain = off * ratio / (variance + chance**2)
        left = (ratio - 1 - ratio * variance / (variance + chance**2)) / known**2 if ratio else 0.0
        return replace(
            self._moved(gain * of_overhead, gain * of_cost, units),
            var_overhead=max(0.0, self.var_overhead + left * of_overhead**2),
            covariance=self.covariance + left * of_overhead * of_cost,
            var_cost=max(0.0, self.var_cost + left * of_cost**2),
        )

    def _moved(self, overhead: float, cost: float, units: float) -> "CostModel":
        """Neither goes below nothing; what one can't give the other does."""
        overhead, cost = self.overhead + overhead, self.cost + cost
        if overhead < 0:
            overhead, cost = 0.0, cost + overhead / units
        if cost < 0:
            overhead, cost = max(0.0, overhead + cost * units), 0.0
        return replace(self, overhead=overhead, cost=cost)
