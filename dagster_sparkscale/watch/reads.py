"""Dagster's storage as a tick reads it: for as long as there is time, and no longer.

A database server whose machine is gone answers nothing, and says so only after a quarter of an hour
or two: a tick that waits for it is lost, and so is each one after it. So a read that takes too long
is given up, and that tick reads nothing more. What a tick could not read counts as not known.
"""

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar, cast

from dagster import DagsterInstance

from dagster_sparkscale.deadlines import DaemonCall, NoAnswer

ANSWER = 10.0
"""Seconds that one read may take. Most take milliseconds."""
GRACE = 10.0
"""Seconds behind the end of a tick until which it reads: those of 60 that are left are for Dagster
to store what was found."""
HANGING = 120
"""Reads at most that hang from earlier ticks, each in a thread: after so many minutes the system
has ended the first ones."""

T = TypeVar("T")


class Reads:
    """The reads of a sensor's ticks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hanging: list[DaemonCall[Any]] = []
        self._until = float("inf")
        self._given_up: str | None = None

    @property
    def given_up(self) -> str | None:
        """Why this tick reads nothing more; None: it does."""
        with self._lock:
            return self._given_up

    def tick(self, until: float) -> None:
        """A tick begins, which reads until `until` by `time.monotonic()`."""
        with self._lock:
            self._until, self._given_up = until + GRACE, None
            self._hanging = [call for call in self._hanging if call.hangs]
            if len(self._hanging) >= HANGING:
                self._given_up = f"Dagster's storage is not read: {len(self._hanging)} reads hang"

    def of(self, instance: DagsterInstance) -> DagsterInstance:
        """An instance each of whose reads is one of these."""
        return cast(DagsterInstance, _Read(instance, self))

    def within(self, read: Callable[[], T]) -> T:
        """What a read comes to.

        Raises:
            NoAnswer: it takes too long, or one before it in this tick has.
            Exception: what it raises.
        """
        with self._lock:
            left = min(ANSWER, self._until - time.monotonic())
            if self._given_up is None and left <= 0:
                self._given_up = "Dagster's storage is too slow: the time of the tick is over"
            if self._given_up is not None:
                raise NoAnswer(self._given_up)
        call = DaemonCall(read, "sparkscale-read")
        came = call.within(left)
        if call.hangs:
            with self._lock:
                self._hanging.append(call)
                self._given_up = f"Dagster's storage gave no answer within {left:.0f} s"
            raise NoAnswer(self._given_up)
        if isinstance(came, Exception):
            raise came
        return came


class _Read:
    """What has methods that read, as it is, but that each call is one of `Reads`."""

    _PARTS = ("event_log_storage",)

    def __init__(self, whole: object, reads: Reads) -> None:
        self._whole, self._reads = whole, reads

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._whole, name)
        if name in self._PARTS:
            return _Read(found, self._reads)
        if not callable(found):
            return found
        return lambda *args, **named: self._reads.within(lambda: found(*args, **named))
