"""The agent: what HTTP threads ask of it, and the threads that look at Spark and act on it.

HTTP threads never call Spark. They read what was seen last, having asked the threads that look to
look again (`looks.py`), and leave a target for the one that acts (`keeper.py`).
"""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .backpressure.at_work import Backpressure
from .backpressure.rates import Rates
from .batches.dstreams import DStreams, ended
from .batches.history import History
from .batches.queries import Queries
from .batches.reports import Input
from .batches.structured import StructuredStreaming
from .begin.options import Options
from .executors.target import Going, Keeper, NotReady
from .log import say
from .operation_order import OperationOrder
from .receivers.mover import Mover
from .receivers.rates import ReceiverRates
from .receivers.tracker import Receivers, hosting
from .spark.features import PrivateSpark
from .spark.jvm import Jvm, PerContext
from .spark.looks import EVERY, Look
from .wire import Answer, Batch, Executor, Query, Receiver, Spark

FRESH = 1.0
"""Seconds what was seen is good for."""
REFRESH_WITHIN = 2.0
"""Seconds an answer waits for fresh looks at most; then it gives what is there, and its age."""
STALE_AFTER = 30.0
"""Seconds after which what was seen of a query is not told any more, as it is not known: three
times as long as there is between two looks."""
TARGET_WITHIN = 8.0
"""Seconds a new target may take to reach the cluster manager before the answer says it has not; and
a receiver that is to move may take to be told."""


class Agent:
    """What a driver's agent knows and does."""

    def __init__(self, options: Options, rates: Rates | None = None) -> None:
        self.options = options
        self.rates = rates or Rates()
        self.history = History()
        self.private = PrivateSpark()
        self.backpressure = Backpressure(
            options.interval_ms, self.rates, self.history, self.private, self._registered
        )
        self._rates_of_receivers = ReceiverRates()
        completed = self._completed
        self.queries = Queries(self.history, options.interval_ms, completed=completed)
        self.structured = StructuredStreaming(self.queries, self.private)
        self.operations = OperationOrder()
        self.started_at = time.time()
        self.phase = "starting"
        """`starting`, `running`, `stopping` or `ended`."""
        self._lock = threading.Lock()
        self._setting_rates = threading.Lock()
        self._target = options.initial_executors
        self._attached = False
        self._mover = Mover(self.private, self._executors_seen)
        self._graphs = PerContext(
            lambda c: DStreams(Jvm(c), self.history, self.private, completed=completed)
        )
        self._receivers: Look[Receivers | None] = Look(
            "receivers", self._mover.look, self._mover.pause
        )
        self._graph = Look("dstreams", self._look_at_graph, self._graph_pause)
        self._triggers = Look("queries", self.structured.look)
        self._keeper = Keeper(self._receivers, self.private, tell_going=self._tell_going)
        self._executors = Look(
            "executors",
            lambda: self._keeper.turn(self._target, stopping=self.phase == "stopping"),
            self._keeper.pause,
        )
        self._looks: tuple[Look[Any], ...] = (
            *(self._executors, self._receivers, self._graph, self._triggers),
        )

    def _completed(
        self, batch: Batch, interval_ms: int, inputs: Sequence[Input], queues: bool
    ) -> Batch:
        self._rates_of_receivers.completed(batch, interval_ms, inputs)
        return self.backpressure.completed(batch, interval_ms, inputs, queues)

    def _executors_seen(self) -> tuple[Executor, ...]:
        seen = self._executors.seen
        return () if seen is None else seen.value.executors

    def _tell_going(self, going: Going) -> None:
        if going != self._mover.going:
            self._mover.going = going
            self._receivers.ask()

    def _look_at_graph(self) -> Query | None:
        dstreams, before = self._graphs.get(), self._graph.seen
        if dstreams is not None:
            return dstreams.observe()
        return ended(before.value) if before and before.value else None  # it went with its context

    def _graph_pause(self) -> float:
        """Seconds until batches of DStreams are looked for again. Estimators need each one soon
        after it; nothing tells of them by itself."""
        graph = self._graph.seen
        if self.queries.begun and (graph is None or graph.value is None):
            return EVERY  # it is a program of Structured Streaming
        return self.backpressure.pace(graph.value.interval_ms if graph and graph.value else None)

    def _registered(self) -> tuple[int | None, int | None]:
        """Executors that are registered now, and their cores; None: not known."""
        seen = self._executors.seen
        if seen is None or seen.age > STALE_AFTER:
            return None, None
        executors = seen.value.executors
        return seen.value.registered, sum(each.cores for each in executors) or None

    # For HTTP threads.

    def status(
        self, since: int | None = None, window: float | None = None, batches: bool = True
    ) -> Answer:
        """What there is to tell.

        Args:
            since, window: which batches, as `History.read` takes them; `window` in seconds.
            batches: whether any at all.
        """
        if self._attached:
            self._refresh()
        now = time.time()
        listed, last = self.history.read(since, None if window is None else now - window)
        bound, seen = self._keeper.bound, self._receivers.seen
        return Answer(
            stream=self.options.stream,
            epoch=self.options.epoch,
            phase=self.phase,
            now=now,
            started_at=self.started_at,
            app_id=bound.app_id if bound else None,
            ui_url=bound.ui_url if bound else None,
            spark=self._spark(),
            rates=self.rates.current(),
            queries=self._queries(),
            batches=tuple(listed) if batches else (),
            last_seq=last,
            dropped_at=self.history.dropped_at,
            operation=self.operations.latest,
            spark_version=bound.version if bound else None,
            missing=(*self.private.missing, *self.backpressure.troubles),
            lacks=self.private.lacks,
            ages={look.name: _rounded(look.age) for look in self._looks},
            limits=self.backpressure.limits,
            receivers=self._receivers_told(),
            relaunches=seen.value.relaunches if seen and seen.value else (),
            reconfigurations=self.structured.reconfigurations,
        )

    def _refresh(self) -> None:
        """Have the looks that are not fresh made again, all at once, unless they hang."""
        until = time.monotonic() + REFRESH_WITHIN
        stale = [look for look in self._looks if look.age is None or look.age > FRESH]
        asked = [(look, look.ask()) for look in stale if not look.hangs]
        for look, ticket in asked:
            look.wait(ticket, until)

    def _spark(self) -> Spark:
        requested = self._target if self._attached else None
        executors, receivers = self._executors.seen, self._receivers.seen
        if executors is None:
            return Spark(requested=requested)
        listed = executors.value.executors
        if receivers is not None and receivers.value is not None:
            listed = hosting(listed, receivers.value)
        return replace(
            executors.value, age=_rounded(executors.age), requested=requested, executors=listed
        )

    def _receivers_told(self) -> tuple[Receiver, ...] | None:
        seen = self._receivers.seen
        if seen is None or seen.value is None or seen.age > STALE_AFTER:
            return None
        rate = self._rates_of_receivers.rate
        return tuple(replace(each, rate=rate(each.stream_id)) for each in seen.value.told)

    def _queries(self) -> tuple[Query, ...]:
        """What is known of each query and of the graph. What a look held up has not shown for long
        is unknown: batches that wait now, how far behind it is now."""
        triggers, graph = self._triggers.seen, self._graph.seen
        queries = self.queries.listed(triggers.value if triggers else {})
        if triggers is None or triggers.age > STALE_AFTER:
            queries = [_unknown_now(query) for query in queries]
        if graph is not None and graph.value is not None:
            stale = graph.age > STALE_AFTER
            queries.append(_unknown_now(graph.value) if stale else graph.value)
        return tuple(queries)

    def set_target(self, target: int, operation: int | None = None) -> None:
        """Set the absolute number of executors; returns once the cluster manager was told.

        Args:
            operation: the number of the operation that wants it; None: of one without.

        Raises:
            Overtaken: a later operation has been here.
            NotReady: it was not told in time. The target stands all the same, unless Spark is
                not there yet or has gone.
        """
        with self._lock:
            self.operations.admit(operation)
            if self.phase != "running" or not self._attached:
                raise NotReady(f"the driver is {self.phase}: executors cannot be set now")
            if not self._keeper.scalable:
                raise NotReady("a local master has no executors of its own that could be set")
            if target != self._target:
                say(f"target {self._target} -> {target} executors")
            self._target = target
            self._keeper.stated = None
            asked = self._executors.ask()
        told = self._executors.wait(asked, time.monotonic() + TARGET_WITHIN)
        if self._target != target:
            raise NotReady(f"the target of {target} was overtaken by one of {self._target}")
        if not told or self._keeper.stated != target:
            trouble = {
                "Spark": self._executors.trouble,
                "the cluster manager": self._keeper.trouble,
            }
            why = "; ".join(f"{who}: {what}" for who, what in trouble.items() if what)
            why = why or "Spark gave no answer in time"
            raise NotReady(f"{why}; the target of {target} stands and is asked for again")

    def move_receiver(self, stream_id: int, executor: str, operation: int | None = None) -> None:
        """Send a receiver to an executor; returns once it has been told, or is there already or on
        its way.

        Args:
            operation: the number of the operation that wants it; None: of one without.

        Raises:
            Overtaken: a later operation has been here.
            CannotMove: the receiver or the executor does not exist, or has no room; the text says
                which.
            NotReady: Spark does not say just now where receivers run.
        """
        with self._lock:  # or one that was admitted earlier might be carried out later
            self.operations.admit(operation)
            if self.phase != "running" or not self._attached:
                raise NotReady(f"the driver is {self.phase}: receivers cannot be moved now")
            request = self._mover.request(stream_id, executor, operation)
            asked = self._receivers.ask()
        self._receivers.wait(asked, time.monotonic() + TARGET_WITHIN)
        request.result()

    def set_rates(self, wanted: Any, operation: int | None = None, absolute: bool = False) -> None:
        """Set and remove live limits of sources; returns once they are in the sources' file.
        Receivers are told soon after.

        Args:
            absolute: whether what is not named is removed.
            operation: the number of the operation that wants it; None: of one without.

        Raises:
            Overtaken: a later operation has been here.
            BadRates: `wanted` is none; the text says what is wrong.
            NotReady: the file cannot be written. The limits are as before.
        """
        with self._setting_rates:  # or one that was admitted earlier might be carried out later
            self.operations.admit(operation)
            try:
                self.rates.change(wanted, absolute)
            except OSError as error:
                raise NotReady(f"rates: they cannot be written: {error}") from None
        self.backpressure.changed()

    # For the main thread.

    def attach(self, context: Any) -> None:
        """Take charge of a SparkContext that has just been created: state the initial target
        before anything else, then start the threads that keep it and look."""
        self._keeper.begin(self._target, self.options.max_executors)
        self.rates.tell_jvm(context)
        self.backpressure.begin(dict(context.getConf().getAll()))
        self._attached = True
        for look in self._looks:
            look.begin()
        self.backpressure.start()

    def announcement(self, url: str, pid: int, host: str) -> Mapping[str, Any]:
        """What is announced to whoever submitted the driver."""
        bound = self._keeper.bound
        return {
            "url": url,
            "pid": pid,
            "host": host,
            "app_id": bound.app_id if bound else None,
            "ui_url": bound.ui_url if bound else None,
        }


def _unknown_now(query: Query) -> Query:
    """A query without what is true of a moment only."""
    return replace(
        query,
        running_ms=None,
        pending_batches=None,
        backlog_records=None,
        behind_ms=None,
        source_shards=None,
    )


def _rounded(age: float | None) -> float | None:
    return None if age is None else round(age, 3)
