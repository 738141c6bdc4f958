"""The agent: what HTTP threads ask of it, and the threads that look at Spark and act on it.

HTTP threads never call Spark. They read what was seen last, having asked the threads that look to
look again (`spark/looks.py`), and leave a target for the one that acts (`executors/target.py`).
What a capability adds to that is a `Part` (`part.py`); the agent names none.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from .batches.dstreams import DStreams, ended
from .batches.queries import Queries
from .batches.reports import DoneBatch
from .batches.structured import StructuredStreaming
from .batches.tracked import KnownState, Lag, NewQuery, StartedQuery
from .part import Core, Part
from .request import Route
from .spark.jvm import Jvm, PerContext
from .spark.looks import SELDOM, Look
from .wire import Answer, Batch, Query

FRESH = 1.0
"""Seconds for which what was seen is good."""
REFRESH_WITHIN = 2.0
"""Seconds an answer waits for fresh looks at most; then it gives what is there, and its age."""


class Agent:
    """What a driver's agent knows and does.

    Args:
        parts: in the order in which they look, and add to a batch and to an answer.
    """

    def __init__(self, core: Core, parts: Sequence[Part] = ()) -> None:
        self.options, self.history, self.admission = core.options, core.history, core.admission
        self.started_at = time.time()
        history, private, completed = core.history, core.private, self._completed
        self._private, self._executors, self._parts = private, core.executors, parts
        self.queries = Queries(
            history, core.options.interval_ms, completed=completed, lag=self._lag
        )
        self.structured = StructuredStreaming(
            *(self.queries, private, self._before_query, self._query_started), self._starting
        )
        self._graphs = PerContext(lambda c: DStreams(Jvm(c), history, private, completed=completed))
        self._graph = Look("dstreams", self._look_at_graph, self._graph_pause)
        self._triggers = Look("queries", self.structured.look)
        self.routes: Mapping[tuple[str, str], Route] = {
            **core.executors.routes,
            **{path: route for part in parts for path, route in part.routes.items()},
        }

    @property
    def _looks(self) -> tuple[Look[Any], ...]:
        of_parts = (look for part in self._parts for look in part.looks)
        return (self._executors.look, *of_parts, self._graph, self._triggers)

    def _completed(self, done: DoneBatch) -> Batch:
        for part in self._parts:
            done = replace(done, batch=part.completed(done))
        return done.batch

    def _before_query(self, query: NewQuery) -> KnownState | None:
        known = [part.before_query(query) for part in self._parts]
        return next((each for each in known if each is not None), None)

    @contextmanager
    def _starting(self, query: NewQuery) -> Iterator[None]:
        with ExitStack() as held:
            for part in self._parts:
                held.enter_context(part.starting(query))
            yield

    def _query_started(self, started: StartedQuery) -> None:
        for part in self._parts:
            part.query_started(started)

    @property
    def busy(self) -> bool:
        """Whether a graceful stop waits for something that a part is in the middle of."""
        return any(part.busy for part in self._parts)

    def _lag(self) -> Lag:
        found = (part.lag() for part in self._parts)
        return next((lag for lag in found if lag is not None), Lag())

    def _look_at_graph(self) -> Query | None:
        dstreams, before = self._graphs.get(), self._graph.seen
        if dstreams is not None:
            return dstreams.observe()
        return ended(before.value) if before and before.value else None  # it went with its context

    def _graph_pause(self) -> float:
        """Seconds until batches of DStreams are looked for again: nothing tells of them by
        itself."""
        graph = self._graph.seen
        if self.queries.begun and (graph is None or graph.value is None):
            return SELDOM  # it is a program of Structured Streaming
        interval_ms = graph.value.interval_ms if graph and graph.value else None
        return min((part.pace(interval_ms) for part in self._parts), default=SELDOM)

    # For HTTP threads.

    def status(
        self, since: int | None = None, window: float | None = None, batches: bool = True
    ) -> Answer:
        """What there is to tell.

        Args:
            since, window: which batches, as `History.read` takes them; `window` in seconds, with
                the batch before it of each query. 0: none.
            batches: whether any at all.
        """
        if self.admission.attached:
            self._refresh()
        now = time.time()
        after = None if window is None else now - window
        listed, last = self.history.read(since, after, leading=bool(window))
        bound = self._executors.bound
        of_parts = (item for part in self._parts for item in part.answer().items())
        return Answer(
            stream=self.options.stream,
            epoch=self.options.epoch,
            phase=self.admission.phase,
            now=now,
            started_at=self.started_at,
            app_id=bound.app_id if bound else None,
            ui_url=bound.ui_url if bound else None,
            spark=self._executors.answer(),
            queries=self._queries(),
            batches=tuple(listed) if batches else (),
            last_seq=last,
            dropped_at=self.history.dropped_at,
            totals=self.history.totals(),
            operation=self.admission.operations.latest,
            spark_version=bound.version if bound else None,
            missing=(*self._private.missing, *(what for p in self._parts for what in p.missing)),
            lacks=self._private.lacks,
            ages={look.name: _rounded(look.age) for look in self._looks},
            **dict(of_parts),
        )

    def _refresh(self) -> None:
        """Have the looks that are not fresh made again, all at once, unless they hang."""
        until = time.monotonic() + REFRESH_WITHIN
        stale = [look for look in self._looks if look.age is None or look.age > FRESH]
        asked = [(look, look.ask()) for look in stale if not look.hangs]
        for look, ticket in asked:
            look.wait(ticket, until)

    def _queries(self) -> tuple[Query, ...]:
        """What is known of each query and of the graph. What a look held up has not shown for long
        is unknown: batches that wait now, how far behind it is now."""
        triggers, graph = self._triggers.seen, self._graph.seen
        queries = self.queries.listed(triggers.value if triggers else {})
        if self._triggers.lately is None:
            queries = [_unknown_now(query) for query in queries]
        if graph is not None and graph.value is not None:
            stale = self._graph.lately is None
            queries.append(_unknown_now(graph.value) if stale else graph.value)
        return tuple(queries)

    # For the main thread.

    def properties(self, settings: Mapping[str, str]) -> Mapping[str, str]:
        """The system properties that the parts need before there is a SparkContext."""
        of_parts = (part.properties(settings) for part in self._parts)
        return {name: value for each in of_parts for name, value in each.items()}

    def attach(self, context: Any) -> None:
        """Take charge of a SparkContext that has just been created: state the initial target
        before anything else, then start the threads that keep it and look."""
        self._executors.begin()
        for part in self._parts:
            part.begin(context)
        self.admission.attached = True
        for look in self._looks:
            look.begin()
        for part in self._parts:
            part.start()

    def announcement(self, url: str, pid: int, host: str) -> Mapping[str, Any]:
        """What is announced to whoever submitted the driver."""
        bound = self._executors.bound
        return {
            "url": url,
            "pid": pid,
            "host": host,
            "app_id": bound.app_id if bound else None,
            "ui_url": bound.ui_url if bound else None,
        }

    def died(self, error: BaseException | str) -> Mapping[str, Any]:
        """What the parts know of an error that has ended the program or a query, as fields of
        `EndReport`."""
        known = (part.died(error) for part in self._parts)
        return {name: value for each in known for name, value in each.items()}

    def ended(self, outcome: str, why: str | None) -> Mapping[str, Any]:
        """What the parts do last, as the driver is about to end; returns their fields of
        `EndReport`.

        Args:
            outcome, why: as `EndReport.outcome` has them.
        """
        known = (part.ended(outcome, why) for part in self._parts)
        return {name: value for each in known for name, value in each.items()}

    def died_unsaid(self) -> tuple[str, Mapping[str, Any]] | None:
        """The error of a query that has died, where a part knows more of it, and what that is. For
        a program that ends without raising it."""
        for query in self.queries.listed({}):
            if query.error is not None and (known := self.died(query.error)):
                return query.error, known
        return None

    def close(self) -> None:
        """Clear away what the parts leave behind."""
        for part in self._parts:
            part.close()


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
