"""Listens to Structured Streaming queries, in whichever session the program starts them."""

import functools
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from dagster_sparkscale.driver.log import say
from dagster_sparkscale.driver.spark.executions import files_waiting, most_rows, trigger_began
from dagster_sparkscale.driver.spark.features import (
    EVENTS,
    FILES,
    INTERVAL,
    READ_LIMITS,
    TRIGGER,
    Feature,
)
from dagster_sparkscale.driver.spark.jvm import Lifetime
from dagster_sparkscale.driver.spark.private import PrivateSpark

from .progress import trigger_interval, trigger_kind
from .queries import Queries
from .tracked import KnownState, NewQuery, StartedQuery

T = TypeVar("T")

_OPTIONS = "_sparkscale_options"
"""Attribute of a DataStreamWriter: the options that the program has given it."""
_GIVEN_FORMAT = "_sparkscale_format"
"""Attribute of a DataStreamWriter: the format that the program has given it."""
_FORMAT = 1
"""Place of the format among the arguments of `start` and `toTable`."""
_QUERY_NAME = 4
"""Place of the query's name among the arguments of `start` and `toTable`."""
_OUTPUT = {"start": "path", "toTable": "tableName"}
"""The first of these arguments."""


BeforeQuery = Callable[[NewQuery], KnownState | None]


class QueryListener:
    """Implements `org.apache.spark.sql.streaming.PythonStreamingQueryListener` by a py4j proxy.

    pyspark's own StreamingQueryListener takes an event apart by dozens of py4j calls; here its
    JSON is fetched in one. An exception must not get back into Spark's listener bus.
    """

    def __init__(
        self, queries: Queries, lifetime: Lifetime, progressed: Callable[[], None] = lambda: None
    ) -> None:
        self._queries, self._lifetime, self._progressed = queries, lifetime, progressed

    def onQueryStarted(self, event: Any) -> None:
        self._pass_on(lambda started: self._queries.started(started, self._lifetime), event)

    def onQueryProgress(self, event: Any) -> None:
        self._pass_on(self._queries.progressed, event)
        self._progressed()

    def onQueryIdle(self, event: Any) -> None:
        self._pass_on(self._queries.idled, event)

    def onQueryTerminated(self, event: Any) -> None:
        self._pass_on(self._queries.terminated, event)

    def _pass_on(self, take: Any, event: Any) -> None:
        try:
            take(json.loads(event.json()))
        except Exception as error:
            say(f"a streaming query's event was lost: {type(error).__name__}: {error}")

    class Java:
        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)


class StructuredStreaming:
    """Every session's `org.apache.spark.sql.streaming.StreamingQueryManager` that runs queries.

    Args:
        before_query: prepares each query that the program is about to start, and returns what is
            known of its state; what it raises keeps the query from starting.
        started: is called with each query that has started, in the thread that has started it.
        starting: what is held from before `before_query` until the query has started.
    """

    def __init__(
        self,
        queries: Queries,
        private: PrivateSpark,
        before_query: BeforeQuery = lambda _: None,
        started: Callable[[StartedQuery], None] = lambda _: None,
        starting: Callable[[NewQuery], AbstractContextManager[None]] = lambda _: nullcontext(),
    ) -> None:
        self._queries, self._before_query, self._started = queries, before_query, started
        self._starting = starting
        self._private = private
        self._lock = threading.Lock()
        self._managers: list[tuple[Lifetime, int, Any]] = []
        """The query managers that have a listener: their SparkContext's lifetime and their
        identity."""
        self._handles: dict[str, Any] = {}
        """The `...sql.streaming.StreamingQuery` of each active query, by run id."""
        self._known: dict[str, KnownState] = {}
        """The active queries, by run id, whose key groups may not be remembered yet."""
        self._remembering = threading.Lock()
        """Held by the thread that does so: of a file system that hangs there is one."""

    def install(self) -> None:
        """Have the session of a query listened to, and the query prepared, before it starts.

        A session's events go to its own listeners only, and the program may make sessions as it
        likes: so the place to attach is where pyspark starts a query.
        """
        self._private.use(EVENTS, self._install, None)

    def _install(self) -> None:
        from pyspark.sql.streaming.readwriter import DataStreamWriter

        _note_options(DataStreamWriter)
        for name in ("start", "toTable"):
            original = getattr(DataStreamWriter, name)

            @functools.wraps(original)
            def begin(writer: Any, *args: Any, _original: Any = original, **options: Any) -> Any:
                try:
                    self._attach(writer._spark)
                except Exception as error:
                    say(f"a query cannot be listened to: {type(error).__name__}: {error}")
                new = self._new(writer, _original.__name__, args, options)
                with self._starting(new):
                    known = self._before_query(new)
                    query = _original(writer, *args, **options)
                try:
                    self._note_interval(query._jsq)
                    self._note_state(query._jsq, known)
                    again = functools.partial(getattr(writer, _original.__name__), *args, **options)
                    self._note_start(new, query, writer, again)
                except Exception as error:
                    say(f"a query's trigger is unknown: {type(error).__name__}: {error}")
                return query

            setattr(DataStreamWriter, name, begin)

    def _note_start(self, new: NewQuery, query: Any, writer: Any, again: Callable[[], Any]) -> None:
        run = str(query._jsq.runId().toString())
        self._started(
            StartedQuery(
                *(new, query, writer, again),
                label=lambda: self._queries.active_label(run),
                ended=lambda: self._queries.terminated({"runId": run}),
            )
        )

    def _new(
        self, writer: Any, by: str, args: Sequence[Any], options: Mapping[str, Any]
    ) -> NewQuery:
        every = {**getattr(writer, _OPTIONS, {}), **options}
        if len(args) > _QUERY_NAME:
            every["queryName"] = args[_QUERY_NAME]
        if args:
            every[_OUTPUT[by]] = args[0]
        texts = {name: str(value) for name, value in every.items() if value is not None}
        table = texts.get(_OUTPUT["toTable"]) if by == "toTable" else None
        format = args[_FORMAT] if len(args) > _FORMAT else options.get("format")
        return NewQuery(
            *(writer._spark, texts, table, self._queries.label),
            frame=getattr(writer, "_df", None),
            format=format or getattr(writer, _GIVEN_FORMAT, None),
        )

    def _note_state(self, query: Any, known: KnownState | None) -> None:
        if known is not None:
            run = query.runId().toString()
            self._queries.set_known(run, known)
            with self._lock:
                self._known[run] = known

    def _remember_soon(self) -> None:
        """Remember key groups on a thread of its own, as Spark's bus of events must not wait for a
        file system. It begins at once, as the driver may be about to end."""
        with self._lock:
            some = bool(self._known)
        if some and not self._remembering.locked():
            threading.Thread(target=self._remember_key_groups, daemon=True).start()

    def _remember_key_groups(self) -> None:
        """Remember the key groups of queries that have turned out to keep state since they
        started."""
        if self._remembering.acquire(blocking=False):
            try:
                self._remember_those_with_state()
            finally:
                self._remembering.release()

    def _remember_those_with_state(self) -> None:
        with self._lock:
            known = dict(self._known)
        stateful, active = set(self._queries.stateful()), set(self._queries.active())
        for run, each in known.items():
            if run in stateful:
                self._queries.set_known(run, each.remember())
            if run in stateful or run not in active:
                with self._lock:
                    self._known.pop(run, None)

    def _attach(self, session: Any) -> None:
        context = session._sc
        manager = session._jsparkSession.streams()
        identity = context._jvm.java.lang.System.identityHashCode(manager)
        with self._lock:
            self._forget()
            if any(identity == known for _, known, _ in self._managers):
                return
            lifetime = Lifetime(context)
            self._private.use(EVENTS, lambda: self._listen(context, manager, lifetime), None)
            self._managers.append((lifetime, identity, manager))

    def _listen(self, context: Any, manager: Any, lifetime: Lifetime) -> None:
        from pyspark.java_gateway import ensure_callback_server_started

        ensure_callback_server_started(context._gateway)
        wrapper = context._jvm.org.apache.spark.sql.streaming
        listener = QueryListener(self._queries, lifetime, self._remember_soon)
        manager.addListener(wrapper.PythonStreamingQueryListenerWrapper(listener))

    def _forget(self) -> None:
        """Forget the queries of a SparkContext that is gone: their numbers may be used again."""
        self._managers = [manager for manager in self._managers if not manager[0].over]

    def _note_interval(self, query: Any) -> None:
        trigger = self._private.use(
            INTERVAL, lambda: query.streamingQuery().trigger().toString(), None
        )
        if trigger is not None:
            run = query.runId().toString()
            kind, interval_ms = trigger_kind(trigger), trigger_interval(trigger)
            self._queries.note(run, kind=kind, interval_ms=interval_ms)

    def managers(self) -> list[Any]:
        """The query managers of the program's SparkContext."""
        with self._lock:
            self._forget()
            return [manager for _, _, manager in self._managers]

    def look(self) -> Mapping[str, int | None]:
        """Find the queries with a trigger in progress, by run id, and when it began (milliseconds
        since the epoch; None if Spark does not say). For one thread.

        Ends the queries of a SparkContext that is gone.
        """
        self._queries.end_with_context()
        active = set(self._queries.active())
        self._handles = {run: handle for run, handle in self._handles.items() if run in active}
        if not active <= set(self._handles):
            self._look_up(active)
        triggers: dict[str, int | None] = {}
        for run, query in self._handles.items():
            status = query.status()
            self._queries.note(run, doing=str(status.message()))
            if status.isTriggerActive():
                triggers[run] = self._asked(TRIGGER, trigger_began, query)
        for run in self._queries.of_unknown_limit():
            if run in self._handles:
                rows = self._asked(READ_LIMITS, most_rows, self._handles[run])
                self._queries.note(run, most_rows=rows)
        for run in self._queries.reading_files():
            if run in self._handles:
                files = self._asked(FILES, files_waiting, self._handles[run])
                self._queries.note(run, files_waiting=files)
        for run in self._queries.outdated():
            if run in self._handles and (last := self._handles[run].lastProgress()) is not None:
                self._queries.reported(run, json.loads(last.json()))
        return triggers

    def _asked(self, feature: Feature, ask: Callable[[Any], T | None], query: Any) -> T | None:
        try:
            return self._private.use(feature, lambda: ask(query), None)
        except Exception:  # the query has ended meanwhile, or is of a kind that does not tell
            return None

    def _look_up(self, runs: set[str]) -> None:
        for manager in self.managers():
            for query in manager.active():
                run = query.runId().toString()
                if run in runs and run not in self._handles:
                    self._handles[run] = query


def _note_options(writer_type: Any) -> None:
    """Have the options and the format of writers noted: in Spark they can't be read back."""

    def noting(name: str, keep: Callable[..., None]) -> None:
        original = getattr(writer_type, name)

        @functools.wraps(original)
        def note(writer: Any, *args: Any, **more: Any) -> Any:
            returned = original(writer, *args, **more)
            keep(writer, *args, **more)
            return returned

        setattr(writer_type, name, note)

    def options(writer: Any, **given: Any) -> None:
        writer.__dict__.setdefault(_OPTIONS, {}).update(given)

    def to(writer: Any, source: str) -> None:
        setattr(writer, _GIVEN_FORMAT, source)

    noting("option", lambda writer, key, value: options(writer, **{key: value}))
    noting("options", options)
    noting("queryName", lambda writer, queryName: options(writer, queryName=queryName))
    noting("format", to)
    noting("foreach", lambda writer, f: to(writer, "foreach"))
    noting("foreachBatch", lambda writer, func: to(writer, "foreachBatch"))
