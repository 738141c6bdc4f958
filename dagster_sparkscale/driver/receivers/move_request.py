"""A request to move a receiver, as it goes from who asks to the thread that acts."""

import threading
from collections.abc import Callable

from dagster_sparkscale.driver.request import BadRequest, NotReady


class CannotMove(BadRequest):
    """A move that can't be; the text names the field, its value and what would be right."""


class MoveRequest:
    """Carried out once or not at all: who has waited long enough withdraws it. Safe for threads."""

    def __init__(self, stream_id: int, executor: str, operation: int | None) -> None:
        self.stream_id, self.executor, self.operation = stream_id, executor, operation
        self._lock = threading.Lock()
        self._begun = self._withdrawn = self._over = False
        self._error: Exception | None = None

    def carry_out(self, move: Callable[[], None]) -> None:
        """Call `move`, unless it was withdrawn or is over. What that raises is for who asked."""
        with self._lock:
            if self._withdrawn or self._begun:
                return
            self._begun = True
        try:
            move()
        except Exception as error:
            self._error = error
        self._over = True

    def result(self) -> None:
        """Returns where it was carried out, and withdraws it where it was not begun.

        Raises:
            CannotMove, NotReady: it was not.
        """
        with self._lock:
            self._withdrawn = not self._begun
        who = f"receiver {self.stream_id}"
        if self._withdrawn:
            raise NotReady(f"Spark gave no answer in time; {who} was not moved")
        if not self._over:
            raise NotReady(f"Spark gave no answer in time; {who} may still be moved: look again")
        if self._error is not None:
            raise self._error
