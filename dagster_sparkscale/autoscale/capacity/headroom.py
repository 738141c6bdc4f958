"""How often batches would have been late by the room they had above the forecast. Pure.

The share of late time in the minutes after a forecast is a curve over capacity / forecast, learned
from the stream's own minutes, of which the old are forgotten. The forecast of a minute is judged
once the next minutes are known.

Work is a fluid: what comes beyond the capacity queues up, and what waits longer than one batch
interval is late. A batch that takes longer by chance makes none late: the next ones make up for it.
Of a minute only its mean m and its peak k are known. They are those of a load that is at k for some
share of the minute and at o for the rest.
"""

from bisect import bisect_right
from collections.abc import Sequence

LEVELS = (
    *(0.79 + 0.03 * number for number in range(17)),
    *(1.3 * 1.1**number for number in range(14)),
)
"""Capacity / forecast: from 0.8 to 4.5."""
_MOST = 1000.0
"""Times the forecast: of more, the shares are the same."""
_NONE = (0.0,) * len(LEVELS)
_BURST = 0.5
"""How long a peak lasts: 0 one batch interval, 1 as long as the mean of its minute lets it."""

Curve = tuple[float, ...]
"""The share of late time for each of `LEVELS`."""


def late_share(came: Sequence[tuple[float, float]], rate: float, slack: float) -> Curve:
    """The shares for the minutes that followed on a forecast.

    Args:
        came: mean and peak of each, records per second.
        rate: the forecast.
        slack: minutes for which a batch may wait without being late: one batch interval. The peak
            of a minute lasts as long, at least.
    """
    phases = []
    for each in came:
        mean, peak = min(_MOST, each[0] / rate), min(_MOST, each[1] / rate)
        if peak <= mean:
            phases.append((mean, 1.0))
            continue
        least = min(slack, mean / peak)
        share = least + _BURST * (mean / peak - least)
        other = max(0.0, mean - share * peak) / (1 - share)
        phases += (peak, share), (other, 1 - share)
    shares = []
    for level in LEVELS:
        queue = late = 0.0
        limit = slack * level
        for of, length in phases:
            if of <= level and not queue:
                continue
            grows = of - level
            after = queue + grows * length
            if after > limit:
                late += length if queue >= limit else (after - limit) / grows
            elif queue > limit:
                late += (limit - queue) / grows
            # A call of `max` would take longer than all the rest.
            queue = after if after > 0.0 else 0.0
        if not late:
            break
        shares.append(late / len(came))
    return (*shares, *_NONE[len(shares) :])


def at(curve: Curve, factor: float) -> float:
    """The share for a capacity of so many times the forecast."""
    number = bisect_right(LEVELS, factor) - 1
    if number < 0:
        return curve[0]
    if number == len(LEVELS) - 1:
        return curve[-1]
    part = (factor - LEVELS[number]) / (LEVELS[number + 1] - LEVELS[number])
    return curve[number] + part * (curve[number + 1] - curve[number])
