"""The agent: what HTTP threads ask of it, and how they get it of the thread that talks to Spark.

HTTP threads never call Spark. They read a snapshot that the Spark thread refreshes, and leave a
wish (a target, a fresh snapshot) that it takes up (`keeper.py`).
"""

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .history import History
from .keeper import Keeper, NotReady, Snapshot
from .log import say
from .options import Options
from .queries import Queries
from .rates import Rates
from .structured import StructuredStreaming
from .wire import Answer, Spark

FRESH = 1.0
"""Seconds a snapshot is good for."""
REFRESH_WITHIN = 2.0
"""Seconds an answer waits for a fresh snapshot at most; then it gives the old one, and its age."""
TARGET_WITHIN = 8.0
"""Seconds a new target may take to reach the cluster manager before the answer says it has not."""


class Agent:
    """What a driver's agent knows and does."""

    def __init__(self, options: Options, rates: Rates | None = None) -> None:
        self.options = options
        self.rates = rates or Rates()
        self.history = History()
        self.queries = Queries(self.history, options.interval_ms)
        self.structured = StructuredStreaming(self.queries)
        self.started_at = time.time()
        self.phase = "starting"
        """`starting`, `running`, `stopping` or `ended`."""
        self._keeper = Keeper(self.structured, self.history)
        self._changed = threading.Condition()
        self._target = options.initial_executors
        self._wish = 0
        self._granted = 0
        self._snapshot: Snapshot | None = None
        self._attached = False

    # For HTTP threads.

    def status(
        self, since: int | None = None, window: float | None = None, batches: bool = True
    ) -> Answer:
        """What there is to tell.

        Args:
            since, window: which batches, as `History.read` takes them; `window` in seconds.
            batches: whether any at all.
        """
        snapshot = self._fresh_snapshot()
        now = time.time()
        listed, last = self.history.read(since, None if window is None else now - window)
        spark = Spark(requested=self._target if self._attached else None)
        if snapshot is not None:
            age = round(max(0.0, time.monotonic() - snapshot.taken), 3)
            spark = replace(snapshot.spark, age=age, requested=spark.requested)
        return Answer(
            stream=self.options.stream,
            epoch=self.options.epoch,
            phase=self.phase,
            now=now,
            started_at=self.started_at,
            app_id=self._keeper.app_id,
            ui_url=self._keeper.ui_url,
            spark=spark,
            rates=self.rates.current(),
            queries=snapshot.queries if snapshot else (),
            batches=tuple(listed) if batches else (),
            last_seq=last,
        )

    def _fresh_snapshot(self) -> Snapshot | None:
        with self._changed:
            known = self._snapshot
            if self._attached and (known is None or time.monotonic() - known.taken > FRESH):
                self._wish_and_wait(REFRESH_WITHIN)
            return self._snapshot

    def set_target(self, target: int) -> None:
        """Set the absolute number of executors; returns once the cluster manager was told.

        Raises:
            NotReady: it was not told in time. The target stands all the same, unless Spark is
                not there yet or has gone.
        """
        with self._changed:
            if self.phase != "running" or not self._attached:
                raise NotReady(f"the driver is {self.phase}: executors cannot be set now")
            if not self._keeper.scalable:
                raise NotReady("a local master has no executors of its own that could be set")
            if target != self._target:
                say(f"target {self._target} -> {target} executors")
            self._target = target
            self._keeper.stated = None
            if not self._wish_and_wait(TARGET_WITHIN) or self._keeper.stated != target:
                why = "; ".join(
                    f"{who}: {what}" for who, what in sorted(self._keeper.trouble.items())
                )
                why = why or "Spark gave no answer in time"
                raise NotReady(f"{why}; the target of {target} stands and is asked for again")

    def set_rates(self, wanted: Any) -> None:
        """Set and remove live limits of sources; returns once they are in the sources' file.

        Raises:
            BadRates: `wanted` is none; the text says what is wrong.
            NotReady: the file cannot be written. The limits are as before.
        """
        try:
            self.rates.change(wanted)
        except OSError as error:
            raise NotReady(f"rates: they cannot be written: {error}") from None

    def _wish_and_wait(self, seconds: float) -> bool:
        """Have the Spark thread make a turn that begins from now on; whether it has in time."""
        self._wish += 1
        wish = self._wish
        self._changed.notify_all()
        return self._changed.wait_for(lambda: self._granted >= wish, seconds)

    # For the main thread.

    def attach(self, context: Any) -> None:
        """Take charge of a SparkContext that has just been created: state the initial target
        before anything else, then start the thread that keeps it."""
        self._keeper.begin(context, self._target, self.options.max_executors)
        self._attached = True
        threading.Thread(target=self._run, name="sparkscale-agent", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._wish > self._granted, self._keeper.pause())
                wish = self._wish
            snapshot = self._keeper.turn(self._target)
            with self._changed:
                self._snapshot = snapshot or self._snapshot
                self._granted = wish
                self._changed.notify_all()

    def announcement(self, url: str, pid: int, host: str) -> Mapping[str, Any]:
        """What is announced to whoever submitted the driver."""
        return {
            "url": url,
            "pid": pid,
            "host": host,
            "app_id": self._keeper.app_id,
            "ui_url": self._keeper.ui_url,
        }
