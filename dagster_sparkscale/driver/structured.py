"""Listens to Structured Streaming queries, in whichever session the program starts them."""

import functools
import json
import threading
from typing import Any

from .log import say
from .progress import trigger_interval, trigger_kind
from .queries import Queries
from .wire import Query


class Listener:
    """Implements `org.apache.spark.sql.streaming.PythonStreamingQueryListener` by a py4j proxy.

    pyspark's own StreamingQueryListener takes an event apart by dozens of py4j calls; here its
    JSON is fetched in one. An exception must not get back into Spark's listener bus.
    """

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    def onQueryStarted(self, event: Any) -> None:
        self._pass_on(self._queries.started, event)

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

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self._lock = threading.Lock()
        self._managers: dict[int, Any] = {}
        self._handles: dict[str, Any] = {}
        """Of each active query, by run id, its `...execution.streaming.StreamExecution`."""

    def install(self) -> None:
        """Have the session of a query listened to before the query starts.

        A session's events go to its own listeners only, and the program may make sessions as it
        likes: so the place to attach is where pyspark starts a query.
        """
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
        from pyspark.java_gateway import ensure_callback_server_started

        context = session._sc
        manager = session._jsparkSession.streams()
        identity = context._jvm.java.lang.System.identityHashCode(manager)
        with self._lock:
            if identity in self._managers:
                return
            ensure_callback_server_started(context._gateway)
            wrapper = context._jvm.org.apache.spark.sql.streaming
            manager.addListener(
                wrapper.PythonStreamingQueryListenerWrapper(Listener(self._queries))
            )
            self._managers[identity] = manager

    def _note_interval(self, query: Any) -> None:
        trigger = query.streamingQuery().trigger().toString()
        run = query.runId().toString()
        self._queries.set_trigger(run, trigger_kind(trigger), trigger_interval(trigger))

    def managers(self) -> list[Any]:
        with self._lock:
            return list(self._managers.values())

    def reset(self) -> None:
        """Forget the managers of a SparkContext that is gone."""
        with self._lock:
            self._managers.clear()
        self._handles.clear()

    def observe(self) -> list[Query]:
        """All queries. For one thread."""
        active = set(self._queries.active())
        self._handles = {run: handle for run, handle in self._handles.items() if run in active}
        if not active <= set(self._handles):
            self._look_up(active)
        triggers: dict[str, int | None] = {}
        for run, execution in self._handles.items():
            if json.loads(execution.status().json())["isTriggerActive"]:
                triggers[run] = _trigger_began(execution)
        for run in self._queries.outdated():
            if run in self._handles and (last := self._handles[run].lastProgress()) is not None:
                self._queries.reported(run, json.loads(last.json()))
        return self._queries.listed(triggers)

    def _look_up(self, runs: set[str]) -> None:
        for manager in self.managers():
            for query in manager.active():
                run = query.runId().toString()
                if run in runs and run not in self._handles:
                    self._handles[run] = query.streamingQuery()


def _trigger_began(execution: Any) -> int | None:
    """When the trigger in progress began, in milliseconds since the epoch; None if not told.

    `...execution.streaming.runtime.ProgressContext`, which is no public interface: another
    release may have it elsewhere, and then the events have to do.
    """
    try:
        began = int(execution.getLatestExecutionContext().currentTriggerStartTimestamp())
    except Exception:
        return None
    return began if began > 0 else None
