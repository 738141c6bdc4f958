"""Listens to Structured Streaming queries, in whichever session the program starts them."""

import functools
import json
import threading
from collections.abc import Mapping
from typing import Any

from .jvm import Lifetime
from .log import say
from .private_spark import EVENTS, INTERVAL, TRIGGER, PrivateSpark, trigger_began
from .progress import trigger_interval, trigger_kind
from .queries import Queries


class Listener:
    """Implements `org.apache.spark.sql.streaming.PythonStreamingQueryListener` by a py4j proxy.

    pyspark's own StreamingQueryListener takes an event apart by dozens of py4j calls; here its
    JSON is fetched in one. An exception must not get back into Spark's listener bus.
    """

    def __init__(self, queries: Queries, lifetime: Lifetime) -> None:
        self._queries, self._lifetime = queries, lifetime

    def onQueryStarted(self, event: Any) -> None:
        self._pass_on(lambda told: self._queries.started(told, self._lifetime), event)

    def onQueryProgress(self, event: Any) -> None:
        self._pass_on(self._queries.progressed, event)

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
    """Every session's `org.apache.spark.sql.streaming.StreamingQueryManager` that runs queries."""

    def __init__(self, queries: Queries, private: PrivateSpark) -> None:
        self._queries = queries
        self._private = private
        self._lock = threading.Lock()
        self._managers: list[tuple[Lifetime, int, Any]] = []
        """Those that are listened to: that of their SparkContext, and by what one knows them."""
        self._handles: dict[str, Any] = {}
        """Of each active query, by run id, its `...sql.streaming.StreamingQuery`."""

    def install(self) -> None:
        """Have the session of a query listened to before the query starts.

        A session's events go to its own listeners only, and the program may make sessions as it
        likes: so the place to attach is where pyspark starts a query.
        """
        self._private.use(EVENTS, self._install, None)

    def _install(self) -> None:
        from pyspark.sql.streaming.readwriter import DataStreamWriter

        for name in ("start", "toTable"):
            original = getattr(DataStreamWriter, name)

            @functools.wraps(original)
            def begin(writer: Any, *args: Any, _original: Any = original, **options: Any) -> Any:
                try:
                    self._attach(writer._spark)
                except Exception as error:
                    say(f"a query cannot be listened to: {type(error).__name__}: {error}")
                query = _original(writer, *args, **options)
                try:
                    self._note_interval(query._jsq)
                except Exception as error:
                    say(f"a query's trigger is unknown: {type(error).__name__}: {error}")
                return query

            setattr(DataStreamWriter, name, begin)

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
        listener = Listener(self._queries, lifetime)
        manager.addListener(wrapper.PythonStreamingQueryListenerWrapper(listener))

    def _forget(self) -> None:
        """Those of a SparkContext that is gone; their numbers may be given out again."""
        self._managers = [manager for manager in self._managers if not manager[0].over]

    def _note_interval(self, query: Any) -> None:
        trigger = self._private.use(
            INTERVAL, lambda: query.streamingQuery().trigger().toString(), None
        )
        if trigger is not None:
            run = query.runId().toString()
            self._queries.set_trigger(run, trigger_kind(trigger), trigger_interval(trigger))

    def managers(self) -> list[Any]:
        """Those of the SparkContext that the program has."""
        with self._lock:
            self._forget()
            return [manager for _, _, manager in self._managers]

    def look(self) -> Mapping[str, int | None]:
        """Of each query with a trigger in progress, by run id, when that began (in milliseconds
        since the epoch; None if Spark does not tell). For one thread.

        Ends the queries of a SparkContext that is gone.
        """
        self._queries.end_with_context()
        active = set(self._queries.active())
        self._handles = {run: handle for run, handle in self._handles.items() if run in active}
        if not active <= set(self._handles):
            self._look_up(active)
        triggers: dict[str, int | None] = {}
        for run, query in self._handles.items():
            if query.status().isTriggerActive():
                triggers[run] = self._began(query)
        for run in self._queries.outdated():
            if run in self._handles and (last := self._handles[run].lastProgress()) is not None:
                self._queries.reported(run, json.loads(last.json()))
        return triggers

    def _began(self, query: Any) -> int | None:
        try:
            return self._private.use(TRIGGER, lambda: trigger_began(query), None)
        except Exception:  # it ended meanwhile, or is of a kind that has none
            return None

    def _look_up(self, runs: set[str]) -> None:
        for manager in self.managers():
            for query in manager.active():
                run = query.runId().toString()
                if run in runs and run not in self._handles:
                    self._handles[run] = query
