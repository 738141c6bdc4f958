"""What the agent's one thread does with Spark: keeps the executors at a target, and looks.

py4j pins a connection and a JVM thread to each Python thread, and a JVM that hangs must not hang an
answer: nothing else of the agent talks to Spark.
"""

import time
from dataclasses import dataclass
from typing import Any

from .dstreams import DStreams
from .executors import Executors
from .history import History
from .jvm import Jvm
from .log import say
from .structured import StructuredStreaming
from .wire import Query, Spark

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


class Keeper:
    """Brings the executors of whichever SparkContext the program has to the target."""

    def __init__(self, structured: StructuredStreaming, history: History) -> None:
        self._structured = structured
        self._history = history
        self.app_id: str | None = None
        self.ui_url: str | None = None
        self.stated: int | None = None
        """The last target that the cluster manager has taken note of; None has it stated anew."""
        self.trouble: dict[str, str] = {}
        """Who does not do its part, and why."""
        self._context: Any = None
        self._executors: Executors | None = None
        self._dstreams: DStreams | None = None
        self._stated_at = 0.0
        self._unsettled_since: float | None = None
        self._placing_since: float | None = None

    @property
    def scalable(self) -> bool:
        """False for a `local[...]` master, which has no executors of its own."""
        return self._executors is None or self._executors.scalable

    def begin(self, context: Any, target: int, most: int | None) -> None:
        """Take charge of a SparkContext that has just been created: state the initial target
        before anything else.

        Args:
            most: executors that the cluster may have started by itself; None: not known.
        """
        self._bind(context)
        assert self._executors is not None
        self._state(target)
        if self._executors.scalable:
            try:
                self._executors.call_off_surplus(target, most)
            except Exception as error:  # no public interface; they go once they have registered
                say(f"surplus executors cannot be called off early: {_first_line(error)}")
        say(f"initial target: {target} executors")

    def turn(self, target: int) -> Snapshot | None:
        """Do what brings the executors to `target`, and look. None if Spark cannot be asked."""
        try:
            snapshot = self._turn(target)
        except Exception as error:
            self._report_trouble("Spark", f"{type(error).__name__}: {_first_line(error)}")
            return None
        self._no_trouble("Spark")
        return snapshot

    def pause(self) -> float:
        """Seconds until the next turn, if nobody asks for one before."""
        if self._unsettled_since is None:
            return SETTLED
        lasted = time.monotonic() - self._unsettled_since
        return HOPELESS if lasted > HOPELESS_AFTER else UNSETTLED

    def _bind(self, context: Any) -> None:
        jvm = Jvm(context)
        self._context = context._jsc
        self._executors = Executors(jvm)
        self._dstreams = DStreams(jvm, self._history)
        self.app_id, self.ui_url = context.applicationId, context.uiWebUrl

    def _turn(self, target: int) -> Snapshot:
        from pyspark import SparkContext

        context = SparkContext._active_spark_context
        if context is None or context._jsc is None:
            raise NotReady("the program has stopped its SparkContext")
        if context._jsc is not self._context:  # the program has made a new one
            self._structured.reset()
            self._bind(context)
            self._stated_at = 0.0
        assert self._executors is not None and self._dstreams is not None
        began = time.monotonic()
        graph, receivers = self._dstreams.observe()
        executors = self._executors.observe(receivers.per_executor)
        settled = len(executors) == target
        if (
            self.stated != target
            or began - self._stated_at >= SETTLED
            or (not settled and began - self._stated_at >= UNSETTLED)
        ):
            self._state(target)
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
                    self._state(target)
        self._unsettled_since = None if settled else (self._unsettled_since or began)
        queries = self._structured.observe()
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

    def _state(self, target: int) -> None:
        assert self._executors is not None
        self._stated_at = time.monotonic()
        try:
            taken = self._executors.request(target)
            why = "it did not take the number of executors"
        except Exception as error:
            taken, why = False, f"{type(error).__name__}: {_first_line(error)}"
        if taken:
            self.stated = target
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
        if self.trouble.get(who) != what:
            say(f"trouble with {who}: {what}; trying on")
        self.trouble[who] = what

    def _no_trouble(self, who: str) -> None:
        if self.trouble.pop(who, None) is not None:
            say(f"{who} answers again")


def _first_line(error: Exception) -> str:
    lines = [line.strip(" :") for line in str(error).splitlines() if line.strip(" :")]
    # py4j's own line only names the call, by a number that changes; Java's exception comes next.
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):
        del lines[0]
    return lines[0][:300] if lines else "no reason given"
