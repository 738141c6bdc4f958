"""How long a batch takes, by what is in it: overhead + cost * units, learned batch by batch. Pure.

A Kalman filter with two unknowns (Kalman 1960), which forgets only what a batch says anything of
(directional forgetting: Kulhavy 1987; Bittanti, Bolzern, Campi 1990): a small batch tells the overhead and
leaves what is known of the cost, a large one renews both together. How much batches vary by chance is
learned too, so that a batch that took longer than any of these is told from one that is as long as
they are now and then.
"""

import math
from dataclasses import dataclass, replace

FORGETTING = 0.7
"""What earlier batches weigh beside the present one; the newest has a weight of 1 - 0.7."""
SURPRISING = 3.0
"""Standard deviations."""
_LEAST_SURPRISE = 0.25
"""As a share of what was expected: what is nearer is no change worth a leap."""
_NOISE = (0.03, 0.1, 0.5)
"""The least, first and largest standard deviation of a batch's time by chance, as a share of it."""
_NOISE_GAIN = 0.1
_CLOCK = 0.005
"""Seconds that a measured time is off by, however short it is."""
_FIRST_OVERHEAD = 0.2
"""Of the interval: more of the first batch's time is not taken for overhead."""


@dataclass(frozen=True, slots=True)
class CostModel:
    """What is believed of batches, and how firmly. Units are records, or what a source counts."""

    overhead: float
    """Seconds that a batch takes without any units."""
    cost: float
    """Seconds per unit."""
    var_overhead: float
    covariance: float
    var_cost: float
    noise: float = _NOISE[1]
    """Standard deviation of a batch's time by chance, as a share of it."""

    @classmethod
    def of_first(cls, units: float, seconds: float, interval: float) -> "CostModel":
        """After a single batch: its time is overhead, or cost, or both."""
        overhead = min(seconds / 2, _FIRST_OVERHEAD * interval)
        apart = overhead / 2
        return cls(
            overhead,
            (seconds - overhead) / units,
            var_overhead=apart**2 + (_NOISE[1] * seconds) ** 2,
            covariance=-(apart**2) / units,
            var_cost=(apart / units) ** 2,
        )

    def seconds(self, units: float) -> float:
        """How long a batch is expected to take."""
        return self.overhead + self.cost * units

    def uncertainty(self, units: float) -> float:
        """Standard deviation of `seconds`, in seconds, by what is not known of the two."""
        variance = self.var_overhead + 2 * units * self.covariance + units**2 * self.var_cost
        return math.sqrt(max(0.0, variance))

    def surprise(self, units: float, seconds: float) -> int:
        """Whether a batch took longer (1) or shorter (-1) than chance explains; else 0."""
        expected = self.seconds(units)
        off = seconds - expected
        spread = math.hypot(self.uncertainty(units), self._chance(expected))
        if abs(off) <= max(SURPRISING * spread, _LEAST_SURPRISE * expected):
            return 0
        return 1 if off > 0 else -1

    def learned(self, units: float, seconds: float) -> "CostModel":
        """After one more batch. One that surprises moves it as far as an ordinary one."""
        expected = self.seconds(units)
        chance = self._chance(expected)
        known = self.uncertainty(units) ** 2
        gains = (
            self.var_overhead + units * self.covariance,
            self.covariance + units * self.var_cost,
        )
        # What is forgotten: the variance of what this batch measures, and no other.
        forgotten = (1 / FORGETTING - 1) / known if known > 0 else 0.0
        var_overhead = self.var_overhead + forgotten * gains[0] ** 2
        covariance = self.covariance + forgotten * gains[0] * gains[1]
        var_cost = self.var_cost + forgotten * gains[1] ** 2
        gains = (gains[0] / FORGETTING, gains[1] / FORGETTING)
        spread = known / FORGETTING + chance**2
        off = seconds - expected
        if self.surprise(units, seconds):
            off = math.copysign(math.sqrt(spread), off)
        relative = min(SURPRISING * self.noise, abs(off) / max(expected, _CLOCK))
        return replace(
            self._moved(off * gains[0] / spread, off * gains[1] / spread, units),
            var_overhead=max(0.0, var_overhead - gains[0] ** 2 / spread),
            covariance=covariance - gains[0] * gains[1] / spread,
            var_cost=max(0.0, var_cost - gains[1] ** 2 / spread),
            noise=_within(
                math.sqrt(self.noise**2 + _NOISE_GAIN * (relative**2 - self.noise**2)), _NOISE
            ),
        )

    def leapt(self, units: float, seconds: float, share: float = 1.0) -> "CostModel":
        """After a change that is no chance: as if batches took what this one did, or part of the way.

        Overhead and cost take their shares of it by what they are of a batch of that size: a small
        batch, which is nearly all overhead, says nothing of the cost.
        """
        expected = max(self.seconds(units), _CLOCK)
        off = share * (seconds - expected)
        parts = (self.overhead**2, (self.cost * units) ** 2)
        whole = sum(parts)
        to_overhead = parts[0] / whole if whole > 0 else 0.5
        moved = self._moved(off * to_overhead, off * (1 - to_overhead) / units, units)
        return replace(
            moved,
            var_overhead=self.var_overhead + (off * to_overhead / 4) ** 2,
            var_cost=self.var_cost + (off * (1 - to_overhead) / units / 4) ** 2,
        )

    def scaled(self, factor: float, doubt: float = 0.0) -> "CostModel":
        """With a cost `factor` times as high.

        Args:
            doubt: standard deviation of that, as a share of the cost.
        """
        cost = self.cost * factor
        return replace(
            self,
            cost=cost,
            covariance=self.covariance * factor,
            var_cost=self.var_cost * factor**2 + (doubt * cost) ** 2,
        )

    def _chance(self, seconds: float) -> float:
        return math.hypot(self.noise * seconds, _CLOCK)

    def _moved(self, overhead: float, cost: float, units: float) -> "CostModel":
        """Neither goes below nothing; what one can't take the other does."""
        overhead, cost = self.overhead + overhead, self.cost + cost
        if overhead < 0:
            overhead, cost = 0.0, cost + overhead / units
        if cost < 0:
            overhead, cost = max(0.0, overhead + cost * units), 0.0
        return replace(self, overhead=overhead, cost=cost)


def _within(value: float, bounds: tuple[float, float, float]) -> float:
    return min(bounds[2], max(bounds[0], value))
