"""The agent: one thread that talks to Spark, and what it knows for everybody else.

HTTP threads never call Spark. They read a snapshot that this thread refreshes, and leave a wish
(a target, a fresh snapshot) that it takes up: py4j pins a connection and a JVM thread to each
Python thread, and a JVM that hangs must not hang an answer.
"""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from .dstreams import DStreams
from .executors import Executors
from .history import History
from .jvm import Jvm
from .log import say
from .options import Options
from .queries import Queries
from .rates import Rates
from .structured import StructuredStreaming
from .wire import Answer, Query, Spark

FRESH = 1.0
"""Seconds a snapshot is good for."""
REFRESH_WITHIN = 2.0
"""Seconds an answer waits for a fresh snapshot at most; then it gives the old one, and its age."""
TARGET_WITHIN = 8.0
"""Seconds a new target may take to reach the cluster manager before the answer says it has not."""
SETTLED, UNSETTLED, HOPELESS = 10.0, 1.0, 5.0
"""Seconds between looks at the executors: when they are as many as the target; when not; and when
they have not been for `HOPELESS_AFTER` seconds, as in a full cluster."""
HOPELESS_AFTER = 60.0
PLACING_WITHIN = 30.0
"""Seconds a scale-down waits for receivers that are being started."""


class NotReady(Exception):
    """Spark cannot be asked (yet, any more, or just now); the text says which."""


@dataclass(frozen=True)
class Snapshot:
    """What Spark said when it was last asked."""

    taken: float
    """`time.monotonic()`."""
    spark: Spark
    """Without its age, and without what is requested."""
    queries: tuple[Query, ...]


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
        self.app_id: str | None = None
        self.ui_url: str | None = None
        self._changed = threading.Condition()
        self._target = options.initial_executors
        self._stated: int | None = None
        """The last target that the cluster manager has taken note of."""
        self._wish = 0
        self._granted = 0
        self._snapshot: Snapshot | None = None
        self._attached = False
        self._trouble: dict[str, str] = {}
        # Of the Spark thread alone:
        self._context: Any = None
        self._executors: Executors | None = None
        self._dstreams: DStreams | None = None
        self._stated_at = 0.0
        self._unsettled_since: float | None = None
        self._placing_since: float | None = None

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
            app_id=self.app_id,
            ui_url=self.ui_url,
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
            if self._executors is not None and not self._executors.scalable:
                raise NotReady("a local master has no executors of its own that could be set")
            if target != self._target:
                say(f"target {self._target} -> {target} executors")
            self._target = target
            self._stated = None
            if not self._wish_and_wait(TARGET_WITHIN) or self._stated != target:
                why = "; ".join(f"{who}: {what}" for who, what in sorted(self._trouble.items()))
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
        self._bind(context)
        assert self._executors is not None
        self._state_target(self._target)
        if self._executors.scalable:
            try:
                self._executors.call_off_surplus(self._target, self.options.max_executors)
            except Exception as error:  # no public interface; they go once they have registered
                say(f"surplus executors cannot be called off early: {_first_line(error)}")
        say(f"initial target: {self._target} executors")
        self.app_id = context.applicationId
        self.ui_url = context.uiWebUrl
        self._attached = True
        threading.Thread(target=self._run, name="sparkscale-agent", daemon=True).start()

    # The Spark thread.

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._wish > self._granted, self._pause())
                wish = self._wish
            try:
                snapshot = self._turn()
                self._no_trouble("Spark")
            except Exception as error:
                snapshot = None
                self._report_trouble("Spark", f"{type(error).__name__}: {_first_line(error)}")
            with self._changed:
                self._snapshot = snapshot or self._snapshot
                self._granted = wish
                self._changed.notify_all()

    def _pause(self) -> float:
        if self._unsettled_since is None:
            return SETTLED
        lasted = time.monotonic() - self._unsettled_since
        return HOPELESS if lasted > HOPELESS_AFTER else UNSETTLED

    def _bind(self, context: Any) -> None:
        jvm = Jvm(context)
        self._context = context._jsc
        self._executors = Executors(jvm)
        self._dstreams = DStreams(jvm, self.history)

    def _turn(self) -> Snapshot:
        from pyspark import SparkContext

        context = SparkContext._active_spark_context
        if context is None or context._jsc is None:
            raise NotReady("the program has stopped its SparkContext")
        if context._jsc is not self._context:  # the program has made a new one
            self.structured.reset()
            self._bind(context)
            self.app_id, self.ui_url = context.applicationId, context.uiWebUrl
            self._stated_at = 0.0
        assert self._executors is not None and self._dstreams is not None
        began = time.monotonic()
        target = self._target
        graph, receivers = self._dstreams.observe()
        executors = self._executors.observe(receivers.per_executor)
        settled = len(executors) == target
        if (
            self._stated != target
            or began - self._stated_at >= SETTLED
            or (not settled and began - self._stated_at >= UNSETTLED)
        ):
            self._state_target(target)
        self._executors.kill_overdue()
        blocked = None
        if not self._executors.scalable:
            blocked, settled = "a local master has no executors of its own", True
        elif len(executors) > target:
            if self._being_placed(receivers.unplaced):
                blocked = f"{receivers.unplaced} receiver(s) are being started; waiting for them"
            else:
                before = self._executors.removing
                blocked = self._executors.shrink(executors, target)
                if self._executors.removing != before:
                    self._state_target(target)
        self._unsettled_since = None if settled else (self._unsettled_since or began)
        queries = self.structured.observe()
        return Snapshot(
            taken=began,
            spark=Spark(
                registered=len(executors),
                removing=self._executors.removing,
                blocked=blocked,
                executors=executors,
            ),
            queries=(*queries, graph) if graph else tuple(queries),
        )

    def _state_target(self, target: int) -> None:
        assert self._executors is not None
        self._stated_at = time.monotonic()
        try:
            taken = self._executors.request(target)
            why = "it did not take the number of executors"
        except Exception as error:
            taken, why = False, f"{type(error).__name__}: {_first_line(error)}"
        if taken:
            self._stated = target
            self._no_trouble("the cluster manager")
        elif self._executors.scalable:
            self._report_trouble("the cluster manager", why)

    def _being_placed(self, unplaced: int) -> bool:
        if not unplaced:
            self._placing_since = None
            return False
        now = time.monotonic()
        self._placing_since = self._placing_since or now
        return now - self._placing_since < PLACING_WITHIN

    def _report_trouble(self, who: str, what: str) -> None:
        if self._trouble.get(who) != what:
            say(f"trouble with {who}: {what}; trying on")
        self._trouble[who] = what

    def _no_trouble(self, who: str) -> None:
        if self._trouble.pop(who, None) is not None:
            say(f"{who} answers again")

    def announcement(self, url: str, pid: int, host: str) -> Mapping[str, Any]:
        """What is announced to whoever submitted the driver."""
        return {
            "url": url,
            "pid": pid,
            "host": host,
            "app_id": self.app_id,
            "ui_url": self.ui_url,
        }


def _first_line(error: Exception) -> str:
    lines = [line.strip(" :") for line in str(error).splitlines() if line.strip(" :")]
    # py4j's own line only names the call, by a number that changes; Java's exception comes next.
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):
        del lines[0]
    return lines[0][:300] if lines else "no reason given"
