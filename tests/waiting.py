"""Waiting for something to become true, with a deadline that a busy machine does not use up.

A deadline here counts seconds of a machine that has time for what is waited for. Where twelve
programs want two processors, a program gets a sixth of what it would get alone, and a second of the
clock counts as a sixth of one. So what never comes fails soon on an idle machine, and what is slow
only because others are running is waited for.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

HANGS = 900.0
"""Seconds after which a call that can't be waited for in steps (`join`, `Event.wait`, a timeout of
`subprocess`) is taken to hang. Long, as these are seconds of the clock; nothing waits it out
unless something is broken."""

_MOST = 20.0
"""Times: a timeout may be of a call that is never answered, and then it is waited out."""
_LEAST = 1 / 40
"""A second counts at least that much: whatever the machine is doing, a deadline comes."""


def share(loadavg: str, cores: int) -> float:
    """The part of what it could use that a program gets, by the content of /proc/loadavg.

    The fourth field says how many threads want a processor at this moment, the one that reads it
    among them.
    """
    wanting = int(loadavg.split()[3].split("/")[0])
    return max(_LEAST, min(1.0, cores / max(1, wanting)))


def _share_now() -> float:
    try:
        return share(Path("/proc/loadavg").read_text(), len(os.sched_getaffinity(0)))
    except (OSError, ValueError, IndexError, AttributeError):
        return 1.0  # no Linux: seconds of the clock


def patience(seconds: float) -> float:
    """As many seconds of the clock as the machine, as busy as it has been for a minute, needs for
    `seconds` of work: for timeouts that are set once and run in other programs."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return seconds * min(_MOST, max(1.0, os.getloadavg()[0] / (cores or 1)))


class Deadline:
    """So many seconds of a machine that has time, counted at each look."""

    def __init__(
        self,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
        share: Callable[[], float] = _share_now,
    ) -> None:
        self._left = seconds
        self._clock, self._share = clock, share
        self._looked = clock()

    def passed(self) -> bool:
        now = self._clock()
        self._left -= (now - self._looked) * self._share()
        self._looked = now
        return self._left < 0


def wait_for(
    what: str,
    look: Callable[[], T],
    seconds: float = 120.0,
    every: float = 0.2,
    about: Callable[[], str] = str,
) -> T:
    """What `look` returns once that is true.

    Args:
        about: asked for more to show, such as a log, when it does not become true.

    Raises:
        AssertionError: it was not within `seconds` of a machine that has time for it (see
            `Deadline`); says what was waited for and last seen.
    """
    deadline = Deadline(seconds)
    while True:
        seen = look()
        if seen:
            return seen
        if deadline.passed():
            raise AssertionError(f"waited {seconds:g} s for {what}; last seen: {seen!r}\n{about()}")
        time.sleep(every)
