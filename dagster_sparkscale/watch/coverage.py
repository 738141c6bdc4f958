"""How far back an evaluation looks, so that no batch falls between two of them. Pure.

Ticks come a little further apart than a window is long, and now and then one is missed. So an
evaluation looks at the batches of its window, by the driver's clock, and at those that the driver
has recorded since the evaluation before: of these none is looked at twice, and a batch that Spark
told of late counts all the same.
"""

import math
from dataclasses import dataclass

from pydantic import FiniteFloat

from dagster_sparkscale.observe.status import Status

LONGEST = 3.0
"""Declared windows that an evaluation looks back at most: what was longer ago says little of what a
stream needs now."""
DELAY = 5.0
"""Seconds within which an agent answers, and within which Spark has told it of a batch."""


@dataclass(frozen=True)
class Evaluated:
    """The last evaluation of a stream on which its policy could decide."""

    at: FiniteFloat = 0.0
    """The driver's clock, seconds since the epoch; 0: there was none."""
    seq: int = 0
    """How many batches the driver had recorded."""


NEVER = Evaluated()


def to_ask_for(declared: float, elapsed: float | None) -> float:
    """Seconds of batches to ask an agent for, so that all are there that `covered` means.

    Args:
        declared: the stream's window, seconds.
        elapsed: seconds since the tick of the last evaluation began, or more; None: there was none.
    """
    if elapsed is None:
        return declared
    return min(max(declared, elapsed + 2 * DELAY), LONGEST * declared)


def covered(declared: float, status: Status, before: Evaluated) -> tuple[float, int]:
    """The seconds that an evaluation of `status` is about, and how many of its newest batches
    belong to it however old they are.

    Args:
        declared: the stream's window, seconds; it is never less.
        before: the evaluation before. One of an earlier driver, or by a clock that was set back
            since, says nothing.
    """
    if not status.started_at <= before.at <= status.now:
        return declared, 0
    seconds = min(max(declared, status.now - before.at), LONGEST * declared)
    # To tenths, as people read it; and never more than the driver has run for.
    return max(declared, math.floor(seconds * 10) / 10), max(0, status.last_seq - before.seq)
