"""Tells how a change of a query's state goes. Safe for threads: the agent's read it."""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dagster_sparkscale.driver.log import say
from dagster_sparkscale.driver.wire import Reconfiguration

from .fingerprint import Fingerprint

IN_PLACE, BESIDE = "in place", "beside the stream"
"""How a change is made while the driver runs, as `Reconfiguration.way`."""
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

    def over(self, outcome: str, reason: str | None = None, **more: Any) -> None:
        """Report the outcome of the change."""
        self._enter("over", outcome=outcome, reason=reason, over_at=time.time(), **more)
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


class InPlace(Reporting):
    """The report of a change that is made while the driver runs: it is not over before the query
    runs again."""

    def __init__(self, id: str, query: str, **known: Any) -> None:
        super().__init__(id, query, way=IN_PLACE, **known)
        self._enter("preparing")
        self._outcome: tuple[str, str | None] | None = None
        self.before_over: Callable[[], None] = lambda: None
        """What is done before it is told that it is over."""

    def over(self, outcome: str, reason: str | None = None, **more: Any) -> None:
        self._outcome = outcome, reason

    @property
    def came(self) -> Reconfiguration | None:
        """What the state of the query came to, for later drivers; None: nothing yet."""
        if self._outcome is None:
            return None
        outcome, reason = self._outcome
        return replace(
            self.change, step="over", outcome=outcome, reason=reason, over_at=time.time()
        )

    def finish(self, outcome: str | None = None, reason: str | None = None, **more: Any) -> None:
        """Report that the query runs again, or why it does not.

        Args:
            outcome, reason: where nothing came of it yet.
            more: what there is to add, by the fields of `Reconfiguration`.
        """
        came = self._outcome or (outcome or "failed", reason)
        self.before_over()
        super().over(*came, **more)
