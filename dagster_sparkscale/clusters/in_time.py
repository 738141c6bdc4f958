"""Calls with a deadline, for ticks that must not hang."""

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def in_time(look: Callable[[], T], seconds: float) -> T | Exception:
    """The result of `look` within `seconds`, or the error that explains why there is none."""
    came: list[T | Exception] = []

    def work() -> None:
        try:
            came.append(look())
        except Exception as error:
            came.append(error)

    # A daemon: a look that hangs must not keep the code server from ending.
    thread = threading.Thread(target=work, name="sparkscale-look", daemon=True)
    thread.start()
    thread.join(seconds)
    return came[0] if came else TimeoutError(f"no answer within {seconds:g} s")


def why(error: Exception) -> str:
    """The text of an error, or its name where it has none."""
    return str(error) or type(error).__name__
