"""How often something is looked at while it is awaited.

Each look costs the cluster manager a call or two, and hundreds of operations may wait at once. So
the first looks are soon, for what takes a moment, and the later ones rare. With the renewals of its
lease, each of which may be a call too, an operation asks its cluster manager once in two seconds at
most where it waits for longer than a few.
"""

import time
from collections.abc import Callable, Iterator

SOONEST = 1.0
"""Seconds until the second look, where looks cost the cluster manager something."""


def pauses(longest: float) -> Iterator[float]:
    """Seconds from each look to the next: twice as many each time, and `longest` at most. Pure."""
    pause = min(SOONEST, longest)
    while True:
        yield pause
        pause = min(2 * pause, longest)


def wait_until(condition: Callable[[], bool], seconds: float, longest: float = 0.05) -> bool:
    """Whether `condition` became true within `seconds`.

    Args:
        longest: seconds between two looks, at most.
    """
    deadline = time.monotonic() + seconds
    for pause in pauses(longest):
        if condition():
            return True
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(pause, left))
    raise AssertionError("pauses have no end")
