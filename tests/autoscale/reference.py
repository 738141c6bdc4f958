"""Spark's ExecutorAllocationManager, written a second time, from its description alone.

    R = floor(mean processing delay in ms) / batchDuration over the batches completed since the
    last evaluation, leaving out batches with a failed output operation. No completed batch: no
    decision.
    R >= up: target = max(min(max, registered + max(round(R), 1)), min); Java's Math.round: half up.
    R <= down and registered > min: remove one executor.

It shares no code with the library, and takes fractions so that no float can be wrong in both.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import floor

SPARKS_MAXIMUM = 2**31 - 1  # Int.MaxValue


def ratio(processing_ms: Sequence[int], interval_ms: int) -> Fraction | None:
    if not processing_ms:
        return None
    return Fraction(floor(Fraction(sum(processing_ms), len(processing_ms))), interval_ms)


def half_up(value: Fraction) -> int:
    """Java's `Math.round` on an exact number: to the nearest, and a half to the upper one."""
    below = floor(value)
    return below + 1 if value - below >= Fraction(1, 2) else below


def executors_after(
    r: Fraction | None,
    *,
    registered: int,
    up: Fraction,
    down: Fraction,
    low: int,
    high: int | None,
) -> int | None:
    """The number that Spark's manager asks for or kills down to; None: it leaves things alone."""
    if r is None:
        return None
    if r >= up:
        most = SPARKS_MAXIMUM if high is None else high
        return max(min(most, registered + max(half_up(r), 1)), low)
    if r <= down and registered > low:
        return registered - 1
    return None
