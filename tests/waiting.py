"""Waiting for something to become true, with a deadline and a word on what was waited for."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_for(what: str, look: Callable[[], T], seconds: float = 60.0, every: float = 0.1) -> T:
    """What `look` returns once that is true.

    Raises:
        AssertionError: it was not within `seconds`; says what was waited for and last seen.
    """
    deadline = time.monotonic() + seconds
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:g} s for {what}; last seen: {seen!r}")
        time.sleep(every)
