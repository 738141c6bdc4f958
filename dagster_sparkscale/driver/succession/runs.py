"""The runs of queries that the program has started, with what it takes to start them again."""

import threading
from dataclasses import dataclass
from typing import Any

from dagster_sparkscale.driver.batches.tracked import NewQuery, StartedQuery
from dagster_sparkscale.driver.ending.between_batches import Ending
from dagster_sparkscale.driver.log import say
from dagster_sparkscale.driver.spark.features import AGAIN
from dagster_sparkscale.driver.spark.jvm import Lifetime
from dagster_sparkscale.driver.spark.looks import first_line
from dagster_sparkscale.driver.spark.private import PrivateSpark

from .handles import identity
from .writers import changes

_OF_SPARK = "org.apache.spark."
_SHOWN = 3
_MEMORY = "memory"
"""The sink that a writer makes anew at each start, by its format (`DataStreamWriter`)."""


@dataclass
class Run:
    """One run of a query."""

    started: StartedQuery
    handle: Any
    """The JVM's StreamingQuery."""
    run: str
    query: str
    """The ids of the run and of the query."""
    manager: int
    """The identity of the query manager of its session."""
    lifetime: Lifetime
    changes: int
    """How often its writer had been changed when it was started."""
    settings: Any
    """What the session had set then, a Java Map."""
    properties: Any
    """The local properties of the thread that has started it, such as the pool of its jobs."""
    fixed: str | None = None
    """Why it can't be ended and started again, whatever comes, for people; None: it can."""

    def why_not(self) -> str | None:
        """Why it can't be ended and started again, for people; None: nothing is known against it.
        Asks no JVM."""
        if self.fixed is not None:
            return self.fixed
        if changes(self.started.writer) != self.changes:
            return "its writer was changed, or used for another query, after it was started"
        return None

    def why_not_now(self) -> str | None:
        """Why it can't, by what the JVM says too."""
        session = self.started.new.session
        if (why := self.why_not()) is not None:
            return why
        if (changed := _differing(session, self.settings)) is not None:
            return f"the program has set {changed} since it was started, and it would begin by that"
        foreign = [
            name
            for listener in session._jsparkSession.streams().listListeners()
            if not (name := str(listener.getClass().getName())).startswith(_OF_SPARK)
        ]
        if foreign:
            return f"{foreign[0]}, a StreamingQueryListener of the JVM, would be told that it ended"
        return None

    def again(self) -> Any:
        """Start it again, as it was started first; returns the program's new handle of it.

        Raises:
            Exception: it can't be started.
        """
        context = self.started.new.session._sc
        spark = context._jsc.sc()
        before = spark.getLocalProperties()
        spark.setLocalProperties(self.properties.clone())
        try:
            return self.started.again()
        finally:
            spark.setLocalProperties(before)


class Runs:
    """All runs of a driver. Safe for threads."""

    def __init__(self, private: PrivateSpark) -> None:
        self._private = private
        self._lock = threading.Lock()
        self._runs: dict[str, Run] = {}

    def note(self, started: StartedQuery) -> Run | None:
        """Take note of a query that has just started, in the thread that has started it; None: it
        can't be started again."""
        try:
            run = self._private.use(AGAIN, lambda: _run_of(started), None)
        except Exception as error:
            say(f"a query can't be started again in this driver: {first_line(error)}")
            return None
        if run is None:
            return None
        with self._lock:
            kept = {id: it for id, it in self._runs.items() if it.started.label() is not None}
            self._runs = {**kept, run.run: run}
        return run

    def active(self) -> dict[str, Run]:
        """The runs that go on, by what the agent calls their queries. Asks no JVM."""
        with self._lock:
            runs = list(self._runs.values())
        labelled = ((run.started.label(), run) for run in runs if not run.lifetime.over)
        return {label: run for label, run in labelled if label is not None}

    def of(self, manager: int) -> dict[str, Run]:
        """The runs of a manager's queries by their ids, ended ones too."""
        with self._lock:
            return {id: run for id, run in self._runs.items() if run.manager == manager}


def _run_of(started: StartedQuery) -> Run:
    session, handle = started.new.session, started.handle._jsq
    context = session._sc
    ending = Ending(context, handle, lambda: False)
    return Run(
        started,
        handle,
        str(handle.runId().toString()),
        str(handle.id().toString()),
        identity(session._jsparkSession.streams()),
        Lifetime(context),
        changes(started.writer),
        session._jsparkSession.conf().getAllAsJava(),
        context._jsc.sc().getLocalProperties().clone(),
        _why_never(ending, started.new),
    )


def _why_never(ending: Ending, new: NewQuery) -> str | None:
    if (new.format or "").lower() == _MEMORY:
        return "it writes to memory: a new start would begin with an empty table, if Spark lets it"
    if not ending.pinned:
        return "PYSPARK_PIN_THREAD is off: it can't be ended between two batches"
    if ending.trigger != "ProcessingTimeTrigger":
        return f"its trigger is {ending.trigger}: only one of batches by time is ended between two"
    if ending.logs_late:
        return "its progress is tracked asynchronously: what its checkpoint has comes later"
    return None


def _differing(session: Any, was: Any) -> str | None:
    """The settings of a session that are not as they were, for people; None: all are."""
    now = session._jsparkSession.conf().getAllAsJava()
    if now.equals(was):
        return None
    before, after = dict(was), dict(now)
    names = sorted(
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    )
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
