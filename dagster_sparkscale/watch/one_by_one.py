"""Keeps the sensors of one process from holding each other up.

The sensors of a code location tick at the same time, on threads of one process that share one
interpreter. After each call of the system a thread waits for it again, so what makes many short
calls takes up to four times as much of the processor on ten threads as one after the other.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class OneByOne:
    """Has the threads of a process do something one after the other, if that goes fast.

    Args:
        patience: seconds for which a thread waits for another one at most. After that it goes on
            beside it, and nobody waits for that other one any more: it may hang. Several that have
            waited for it in vain go on side by side.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._lock = threading.Lock()

    @contextmanager
    def turn(self) -> Iterator[None]:
        lock = self._lock
        if not lock.acquire(timeout=self._patience):
            lock = threading.Lock()
            lock.acquire()  # before any other can have it, and hang
            self._lock = lock
        try:
            yield
        finally:
            lock.release()


FINDING = OneByOne(0.1)
"""Finding a driver, which takes a fifth of a millisecond where the disk does not hang."""
TELLING = OneByOne(2.0)
"""Telling of the streams of a sensor, which takes less than a second for a thousand of them."""
