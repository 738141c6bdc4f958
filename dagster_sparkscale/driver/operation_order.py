"""The order of operations on a stream: an earlier one must not undo a later one.

An epoch distinguishes starts of a stream. Within one, a request may come late: its run was held up
and lost its lease, and the next operation was here first.
"""

import threading


class Overtaken(Exception):
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
            Overtaken: a later one has asked before.
        """
        if operation is None:
            return
        with self._lock:
            if self._latest is not None and operation < self._latest:
                raise Overtaken(operation, self._latest)
            self._latest = operation
