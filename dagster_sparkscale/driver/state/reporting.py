"""Tells how a change of a query's state goes. Safe for threads: the agent's read it."""

import os
import threading
import time
from dataclasses import replace
from typing import Any

from dagster_sparkscale.driver.log import say
from dagster_sparkscale.driver.wire import Reconfiguration

from .fingerprint import Fingerprint

HOLD_AT = "SPARKSCALE_HOLD_AT"
"""Environment variable for tests: the step at whose beginning the driver waits to be killed, or,
as `STEP=FILE`, for that file."""


class Reporting:
    """The report of one change, which it makes as it goes."""

    def __init__(self, id: str, query: str, **known: Any) -> None:
        self._lock = threading.Lock()
        self._change = Reconfiguration(id, query, "checking", time.time(), **known)
        self._since = time.monotonic()
        self._seconds: dict[str, float] = {}

    @property
    def change(self) -> Reconfiguration:
        with self._lock:
            return self._change

    def add(self, **more: Any) -> None:
        with self._lock:
            self._change = replace(self._change, **more)

    def step(self, name: str) -> None:
        """The next step begins."""
        self._enter(name)
        say(f"state of query {self._change.query!r}: {name}")
        held, _, until = os.environ.get(HOLD_AT, "").partition("=")
        while held == name and not (until and os.path.exists(until)):
            time.sleep(0.1)

    def over(self, outcome: str, reason: str | None = None) -> None:
        """Report the outcome of the change."""
        self._enter("over", outcome=outcome, reason=reason)
        change = self.change
        numbers = f"{change.before} -> {change.after} partitions" if change.before else "partitions"
        because = f": {reason}" if reason else ""
        say(f"state of query {change.query!r}: {numbers}: {outcome}{because}")

    def measured(self, state: Fingerprint, key_groups: int) -> None:
        """The state as it was before."""
        groups, partitions = state.group_rows(key_groups), state.partition_rows()
        self.add(rows=state.rows, group_rows=groups, partition_rows=partitions)

    def measured_after(self, state: Fingerprint) -> None:
        self.add(partition_rows_after=state.partition_rows())

    def _enter(self, name: str, **more: Any) -> None:
        with self._lock:
            now = time.monotonic()
            before, took = self._change.step, now - self._since
            if name != before or self._seconds:
                self._seconds[before] = round(self._seconds.get(before, 0.0) + took, 3)
            self._since = now
            self._change = replace(self._change, step=name, seconds=dict(self._seconds), **more)
