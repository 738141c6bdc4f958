"""Tells an OpenLineage server of a driver's run, on a thread of its own; without Spark.

Nothing waits for it but the end of the driver, and that for a few seconds. No event is kept for a
server that is away: the next RUNNING event says all that an earlier one has said.
"""

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dagster_sparkscale.driver.log import say

from .datasets import Dataset
from .events import RUNNING, START, run_event
from .plan import LineagePlan
from .post import NotTaken, post

TIMEOUT = 5.0
"""Seconds that the server has to answer."""
AGAIN = 60.0
"""Seconds at most until it is tried again, and at least between two events that tell of new
datasets."""
AT_THE_END = 1.0
"""Seconds between two attempts to tell of the end."""
MOST = 1000
"""Datasets that are told of, inputs and outputs each."""

Post = Callable[[LineagePlan, Mapping[str, Any], float], None]
End = tuple[str, float, str | None]
"""The kind of the last event, when it ended (seconds since the epoch), and what it failed of."""


class Teller:
    """Tells of one run: START, RUNNING every so often, and its end.

    Args:
        run: its id.
        spark: the release of Spark.
        began_at: seconds since the epoch.
    """

    def __init__(
        self, plan: LineagePlan, run: str, spark: str, began_at: float, post: Post = post
    ) -> None:
        self._plan, self._run_id, self._spark, self._began_at = plan, run, spark, began_at
        self._post = post
        self._inputs: dict[Dataset, None] = {}
        self._outputs: dict[Dataset, None] = {}
        self._changed = threading.Condition()
        self._anew = False
        """Whether there are datasets that no event has told of."""
        self._end: End | None = None
        self._until = 0.0
        self._told = threading.Event()
        self._trouble: str | None = None

    def begin(self) -> None:
        """Start the thread. It ends with the process."""
        threading.Thread(target=self._run, name="sparkscale-lineage", daemon=True).start()

    def note(self, inputs: Iterable[Dataset], outputs: Iterable[Dataset]) -> None:
        """Tell of these, too, from now on."""
        with self._changed:
            for known, more in ((self._inputs, inputs), (self._outputs, outputs)):
                for dataset in more:
                    if dataset not in known and len(known) < MOST:
                        known[dataset] = None
                        self._anew = True
            self._changed.notify_all()

    def end(self, kind: str, at: float, error: str | None, within: float) -> bool:
        """Tell of the end; whether that was taken within so many seconds.

        Args:
            kind, at, error: as for `run_event`.
        """
        with self._changed:
            self._end, self._until = (kind, at, error), time.monotonic() + within
            self._changed.notify_all()
        return self._told.wait(within)

    def _run(self) -> None:
        kind, last = START, -math.inf
        while self._wait(last) is None:
            at = self._began_at if kind == START else time.time()
            taken = self._tell(self._event(kind, at))
            last = time.monotonic()
            with self._changed:
                kind, self._anew = (RUNNING, self._anew) if taken else (kind, True)
        self._tell_of_end()

    def _wait(self, last: float) -> End | None:
        """Return once the next event is due; None: it is not the end.

        Args:
            last: when the last one was told, by `time.monotonic()`.
        """
        with self._changed:
            while self._end is None:
                pause = min(self._plan.every, AGAIN) if self._anew else self._plan.every
                left = last + pause - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(min(left, threading.TIMEOUT_MAX))
            return self._end

    def _event(self, kind: str, at: float, error: str | None = None) -> Mapping[str, Any]:
        with self._changed:
            self._anew = False
            inputs, outputs = tuple(self._inputs), tuple(self._outputs)
        return run_event(
            *(self._plan, self._run_id, kind, at),
            inputs=inputs,
            outputs=outputs,
            spark=self._spark,
            error=error,
        )

    def _tell_of_end(self) -> None:
        assert self._end is not None
        event = self._event(*self._end)
        while not self._tell(event):
            if time.monotonic() + AT_THE_END >= self._until:
                return
            time.sleep(AT_THE_END)
        self._told.set()

    def _tell(self, event: Mapping[str, Any]) -> bool:
        """Whether the event was taken. Trouble is said once."""
        try:
            self._post(self._plan, event, TIMEOUT)
            trouble = None
        except NotTaken as error:
            trouble = str(error)
        if trouble is not None and trouble != self._trouble:
            say(f"trouble with lineage: {trouble}; trying on")
        elif trouble is None and self._trouble is not None:
            say("lineage: it is taken again")
        self._trouble = trouble
        return trouble is None
