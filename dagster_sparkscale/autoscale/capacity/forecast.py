"""What is to be expected of the next minutes, and how often that was too little. Pure.

The forecast is what came in the last minute, judged by its fullest batch as well: one that is
fuller than usual for its mean says that the load has risen within the minute. It has two headroom
curves, one for when the load rises.
"""

from math import exp, log, sqrt
from typing import NamedTuple, Self

from dagster_sparkscale.autoscale.capacity.demand import Demand
from dagster_sparkscale.autoscale.capacity.headroom import LEVELS, Curve, late_share

HORIZON = 2
"""Minutes after a decision that it is judged by: executors come within the first, and the next
decision has its effect after the second."""
_MEMORY = 360.0
"""Minutes of which a curve is the mean; the older count less."""
_PRIOR_MINUTES = 10.0
"""Minutes that the curve before any is known counts for."""
_PRIOR_FROM, _PRIOR_DECLINE = 0.9, 0.05
"""Capacity / forecast up to which that one is 1, and how far above that it has fallen to 1 / e."""
_RECENT = 5
"""Minutes that are compared with, to see whether the load rises."""
_RISING = 1.05
"""Times the mean of the minutes before from which on the load rises."""
_SPREAD_GAIN = 0.03
"""Share that a minute has of what is usual of peaks."""
_UNUSUAL = 2.0
"""Standard deviations above the usual, from which on a peak says that the load has risen."""
_NOTHING = 1e-6
"""Records per second that are none: nothing is compared with so few."""

_PRIOR: Curve = tuple(min(1.0, exp((_PRIOR_FROM - level) / _PRIOR_DECLINE)) for level in LEVELS)


class Expected(NamedTuple):
    """A forecast, records per second."""

    rate: float
    rising: bool


class Judged(NamedTuple):
    """How forecasts went."""

    calm: Curve = _PRIOR
    rising: Curve = _PRIOR
    calm_minutes: float = _PRIOR_MINUTES
    rising_minutes: float = _PRIOR_MINUTES

    def after(self, expected: Expected, came: "tuple[Came, ...]", slack: float) -> Self:
        """With one forecast more of which it is known what came after.

        Args:
            slack: minutes for which a batch may wait without being late.
        """
        share = late_share(came, expected.rate, slack)
        if expected.rising:
            n = min(_MEMORY, self.rising_minutes + 1)
            return self._replace(rising=_mixed(self.rising, share, 1 / n), rising_minutes=n)
        n = min(_MEMORY, self.calm_minutes + 1)
        return self._replace(calm=_mixed(self.calm, share, 1 / n), calm_minutes=n)

    def curve(self, rising: bool) -> Curve:
        """The headroom curve to use."""
        return self.rising if rising else self.calm


class Came(NamedTuple):
    """What came in one minute, records per second."""

    mean: float
    peak: float
    """The rate of the fullest batch."""


class Forecast(NamedTuple):
    """The forecasts and what is remembered for them."""

    last: Judged = Judged()
    means: tuple[float, ...] = ()
    """What came in each of the last minutes, the latest last."""
    came: tuple[Came, ...] = ()
    pending: tuple[Expected, ...] = ()
    """Forecasts that are not judged yet, the oldest first."""
    spread: float = 0.1
    """Usual logarithm of peak over mean."""
    spread_variance: float = 0.02

    def without_past(self) -> Self:
        """After minutes that are missing: what was learned stays, what was about to be is lost."""
        return self._replace(means=(), came=(), pending=())

    def after(self, demand: Demand, slack: float) -> Self:
        """With one minute more.

        Args:
            slack: minutes for which a batch may wait without being late.
        """
        last = self.last
        recent_came = (*self.came, Came(demand.mean, demand.peak))[-HORIZON:]
        pending = self.pending
        if len(pending) == HORIZON:
            if pending[0].rate > _NOTHING:
                last = last.after(pending[0], recent_came, slack)
            pending = pending[1:]
        before = self.means
        rate, spread, spread_variance = demand.mean, self.spread, self.spread_variance
        if demand.mean > _NOTHING:
            off = log(demand.peak / demand.mean) - spread
            usual = exp(spread + _UNUSUAL * sqrt(spread_variance))
            rate = max(demand.mean, demand.peak / usual)
            spread += _SPREAD_GAIN * off
            spread_variance += _SPREAD_GAIN * (off * off - spread_variance)
        level = sum(before) / len(before) if before else rate
        rising = rate > _RISING * level
        return self.__class__(
            last=last,
            means=(*before, demand.mean)[-_RECENT:],
            came=recent_came,
            pending=(*pending, Expected(rate, rising)),
            spread=spread,
            spread_variance=spread_variance,
        )

    @property
    def now(self) -> tuple[Expected, Curve]:
        """What is expected, and the headroom curve for it. Not before the first minute."""
        expected = self.pending[-1]
        return expected, self.last.curve(expected.rising)


def _mixed(curve: Curve, share: Curve, gain: float) -> Curve:
    return tuple([old + gain * (new - old) for old, new in zip(curve, share, strict=True)])
