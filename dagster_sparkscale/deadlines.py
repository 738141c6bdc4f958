"""Calls with a deadline, for ticks that must not hang."""

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class NoAnswer(TimeoutError):
    """A call has not ended in time; it goes on."""


class DaemonCall(threading.Thread, Generic[T]):
    """A call that begins at once, in a thread of its own.

    A daemon: a call that hangs for good must not keep the process from ending.
    """

    def __init__(self, act: Callable[[], T], name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._act = act
        self._came: list[T | Exception] = []
        self._ended = threading.Event()
        try:
            self.start()
        except RuntimeError as error:  # the container has no thread left
            self._came.append(NoAnswer(f"it could not be asked for: {error}"))
            self._ended.set()

    def run(self) -> None:
        try:
            self._came.append(self._act())
        except Exception as error:
            self._came.append(error)
        finally:
            self._ended.set()

    @property
    def hangs(self) -> bool:
        """Whether it goes on. Its thread may be alive for a moment after it has ended."""
        return not self._ended.is_set()

    def within(self, seconds: float) -> T | Exception:
        """The result of the call, or the error that explains why there is none after `seconds`."""
        self._ended.wait(max(0.0, seconds))
        return self._came[0] if self._came else NoAnswer(f"no answer within {seconds:g} s")


class Calls:
    """Calls that may hang, of several kinds. While one hangs, no other of its kind begins: their
    threads would be more and more. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._late: dict[str, list[DaemonCall[Any]]] = {}
        """The calls of each kind that have not ended in time, when that was last looked at."""

    def within(self, kind: str, act: Callable[[], T], seconds: float) -> T | Exception:
        """The result of `act` within `seconds`, or the error that explains why there is none."""
        with self._lock:
            # Several may have begun at once, before it was known that one hangs.
            late = [call for call in self._late.pop(kind, ()) if call.hangs]
            if late:
                self._late[kind] = late
                return NoAnswer("no answer yet to what was asked before")
        call = DaemonCall(act, f"sparkscale-{kind}")
        came = call.within(seconds)
        if call.hangs:
            with self._lock:
                self._late.setdefault(kind, []).append(call)
        return came


def in_time(look: Callable[[], T], seconds: float) -> T | Exception:
    """The result of `look` within `seconds`, or the error that explains why there is none."""
    return DaemonCall(look, "sparkscale-look").within(seconds)


def why(error: Exception) -> str:
    """The text of an error, or its name where it has none."""
    return str(error) or type(error).__name__
