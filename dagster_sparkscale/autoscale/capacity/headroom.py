"""How often batches would have been late by the room they had above the forecast. Pure.

The share of late time in the minutes after a forecast is a curve over capacity / forecast, learned
from the stream's own minutes, of which the old are forgotten. The forecast of a minute is judged
once the next minutes are known.

Of a minute only its mean m and its peak k are known. They are those of a load that is at k for the
share f of it, and at o else: then a capacity of c between the two is late from when k comes until
what has queued up is done, f + f (k / c - 1) / (1 - o / c) = (m - o) / (c - o) of the time.
"""

from bisect import bisect_left
from math import erfc, exp, log, sqrt

_FIRST, _STEP, _LEVELS = 0.7, 1.04, 64
LEVELS = tuple(_FIRST * _STEP**number for number in range(_LEVELS))
"""Capacity / forecast: from 0.7 to 8.3."""
_LOGS = tuple(log(level) for level in LEVELS)
_LOG_STEP, _LOG_FIRST = log(_STEP), log(_FIRST)

_FAR = 3.5
"""Standard deviations of noise beyond which it makes no batch late."""
_QUEUE = 2.6
"""The decline with each standard deviation of room of the share of batches that are late for those
before them: fitted to simulated batches whose times are lognormal."""
_LOSS = 5.0
_AFTER = 1.0
"""A minute that brings more than can be done makes minutes after it late as well: so many times the
share by which it is more, and at most so many."""
_ROOT_HALF = sqrt(0.5)
_NONE = (0.0,) * _LEVELS

Curve = tuple[float, ...]
"""The share of late time for each of `LEVELS`."""


def late_share(mean: float, peak: float, least: float, noise: float) -> Curve:
    """The shares for one minute.

    Args:
        mean, peak: times the forecast.
        least: the share of the minute that its peak had, at least: one of its batches.
        noise: relative standard deviation of processing times.
    """
    reach = max(peak, mean * exp(_FAR * noise))
    below, end = bisect_left(LEVELS, mean), bisect_left(LEVELS, reach)
    other = max(0.0, (mean - least * peak) / (1 - least)) if least < 1 else mean
    over, log_mean = mean - other, log(mean) if mean > 0 else 0.0
    shares = [1.0 + min(_AFTER, _LOSS * (mean / level - 1)) for level in LEVELS[:below]]
    for level, log_level in zip(LEVELS[below:end], _LOGS[below:end], strict=True):
        share = over / (level - other) if level < peak else 0.0
        z = (log_level - log_mean) / noise
        if z < _FAR:
            share = max(share, 0.5 * (erfc(z * _ROOT_HALF) + exp(-_QUEUE * z)))
        shares.append(min(1.0, share))
    return (*shares, *_NONE[end:])


def at(curve: Curve, factor: float) -> float:
    """The share for a capacity of so many times the forecast."""
    if factor <= _FIRST:
        return curve[0]
    place = (log(factor) - _LOG_FIRST) / _LOG_STEP
    number = int(place)
    if number >= _LEVELS - 1:
        return curve[-1]
    below = curve[number]
    return below + (place - number) * (curve[number + 1] - below)
