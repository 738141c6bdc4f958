"""What a process keeps of a namespace from one look to the next, in bounds."""

import threading
from dataclasses import dataclass, field
from typing import Any

LOGS = 4096
"""Ends of logs that are kept, at most."""


@dataclass
class Kept:
    taking: threading.Lock = field(default_factory=threading.Lock)
    """Held by who takes a snapshot."""
    taken: dict[str | None, tuple[float, Any]] = field(default_factory=dict, repr=False)
    """The snapshots taken last, by the kind of applications they have, and when each was, by
    `time.monotonic()`."""
    _logs: dict[str, tuple[int, str]] = field(default_factory=dict, repr=False)
    """The last lines of drivers that have ended, by their start, and how many were asked for."""

    def log(self, start: str, lines: int) -> str | None:
        """The end of the log of a driver that has ended; None: it is not kept."""
        kept, log = self._logs.get(start, (None, ""))
        return log if kept == lines else None

    def keep_log(self, start: str, lines: int, log: str) -> None:
        if len(self._logs) >= LOGS:
            self._logs.clear()
        self._logs[start] = lines, log
