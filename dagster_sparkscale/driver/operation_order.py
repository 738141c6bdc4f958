"""The order of operations on a stream: an earlier one must not undo a later one.

An epoch distinguishes starts of a stream. Within one, a request may come late: its run was held up
and lost its lease, and the next operation was here first.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .request import NotReady


class OutOfOrder(Exception):
    """An operation came after a later one; the text says so. It has changed nothing."""

    def __init__(self, operation: int, latest: int) -> None:
        super().__init__(
            f"operation: {operation}: a later operation, {latest}, has taken over; nothing was "
            "changed"
        )
        self.latest = latest


class OperationOrder:
    """The highest number of an operation that has asked for a change. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest: int | None = None

    @property
    def latest(self) -> int | None:
        """None: no operation with a number has asked for anything."""
        return self._latest

    def admit(self, operation: int | None) -> None:
        """Take note of the operation that asks for a change. The latest may ask again.

        Args:
            operation: None: it has no number, as those of an older Dagster side; admitted.

        Raises:
            OutOfOrder: a later one has asked before.
        """
        if operation is None:
            return
        with self._lock:
            if self._latest is not None and operation < self._latest:
                raise OutOfOrder(operation, self._latest)
            self._latest = operation


class Admission:
    """Decides which requests may change something now. Safe for threads."""

    def __init__(self) -> None:
        self.operations = OperationOrder()
        self.phase = "starting"
        """`starting`, `running`, `stopping` or `ended`."""
        self.attached = False
        """Whether there has been a SparkContext."""
        self._acting = threading.Lock()

    @contextmanager
    def of_spark(self, operation: int | None, otherwise: str) -> Iterator[None]:
        """Admit an operation that acts on Spark, and hold others back while the context lasts: or
        one that was admitted earlier might be carried out later.

        Args:
            operation: its number; None: it has none.
            otherwise: what can't be while the program does not run, for people.

        Raises:
            OutOfOrder: a later operation has been here.
            NotReady: the program does not run.
        """
        with self._acting:
            self.operations.admit(operation)
            if self.phase != "running" or not self.attached:
                raise NotReady(f"the driver is {self.phase}: {otherwise} now")
            yield
