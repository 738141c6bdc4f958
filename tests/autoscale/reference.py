"""Spark's ExecutorAllocationManager, written a second time, from its description alone.

    R = floor(mean processing delay in ms) / batchDuration over the batches completed since the
    last evaluation, leaving out batches with a failed output operation. No completed batch: no
    decision.
    R >= up: target = max(min(max, registered + max(round(R), 1)), min); Java's Math.round: half up.
    R <= down and registered > min: remove one executor.

Beyond Spark, where the source tells how far behind the stream is and how many shards it reads:

    Too far behind: nobody is removed. R < up: as if R were up, unless it is catching up, or batches
    take no more than `down` of their interval and wait for the rest of it.
    Nobody is added whom the shards do not keep busy: ceil(shards * tasks per shard / cores).
    Nobody is removed whom R would add again: R * those at work / those left >= up.

It shares no code with the library, and takes fractions so that no float can be wrong in both.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, floor

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


def useful_executors(shards: int, per_shard: Fraction, cores: int) -> int:
    return ceil(shards * per_shard / cores)


def executors_with_a_source(
    r: Fraction,
    *,
    registered: int,
    up: Fraction,
    down: Fraction,
    low: int,
    high: int | None,
    useful: int | None,
    late: bool,
    catching_up: bool,
    paced: bool,
) -> int:
    """The number that is asked for where as many are requested as are registered."""
    if late and r < up:
        if catching_up or (r <= down and paced):
            return registered
        r = up
    wanted = executors_after(r, registered=registered, up=up, down=down, low=low, high=high)
    if wanted is None or wanted == registered:
        return registered
    at_work = registered if useful is None else min(registered, useful)
    if wanted < registered and r * max(1, Fraction(at_work, wanted)) >= up:
        return registered
    reachable = wanted if useful is None else max(low, min(wanted, useful))
    # More than are useful are not taken away because they are not: only when R says so.
    return max(reachable, registered) if r >= up else reachable
