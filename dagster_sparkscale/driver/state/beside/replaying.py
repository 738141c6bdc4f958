"""Runs batches of a query a second time, on a copy of its checkpoint, into nothing."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dagster_sparkscale.driver.state import layout
from dagster_sparkscale.driver.state.tasks import OURS, POOL
from dagster_sparkscale.driver.succession.runs import Run

from . import limits
from .limits import FILES, KAFKA, Source

CHANGELOGS = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
DELTAS = "spark.sql.streaming.stateStore.minDeltasForSnapshot"
UNLOAD = "spark.sql.streaming.stateStore.unloadOnCommit"
STOP_TIMEOUT = "spark.sql.streaming.stopTimeout"
_FILES = "FileSource["
"""Begins the name of the source of files (`DataSource.sourceInfo`)."""
_CLEANS, _GROUP = "cleansource", "kafka.group.id"
_TURN_MS = 200
_RECENT = 10


class NotReplayed(RuntimeError):
    """A batch could not be run a second time; the text says why."""


def sources(frame: Any) -> tuple[Source, ...]:
    """What a query reads as a stream, by its plan."""
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    every = [leaves.apply(number) for number in range(leaves.size())]
    return tuple(_source(frame, leaf) for leaf in every if leaf.isStreaming())


def why_not_stored(session: Any, format: str | None) -> str | None:
    """Why state as a query keeps it can't be changed beside the stream, in words; None: it can.

    Args:
        session: of the query.
        format: the version of the format of state stores in its checkpoint; None: not known yet.

    Raises:
        ValueError: it is set to what is no number.
    """
    conf = session.conf
    return limits.why_not_stored(
        format or str(conf.get(layout.FORMAT, "1")), int(conf.get(layout.RETAINED, "100"))
    )


def _source(frame: Any, leaf: Any) -> Source:
    kind = str(leaf.getClass().getSimpleName())
    if kind == "StreamingRelation":
        name, options = str(leaf.sourceName()), leaf.dataSource().options()
        jvm = frame.sparkSession._jvm
        given = dict(jvm.scala.jdk.javaapi.CollectionConverters.asJava(options))
        return source(name, given)
    if kind == "StreamingRelationV2":
        return source(str(leaf.sourceName()), dict(leaf.extraOptions()))
    return Source(kind)


def source(name: str, options: Mapping[str, str]) -> Source:
    """One source, by its name and its options."""
    given = {key.lower(): str(value).lower() for key, value in options.items()}
    kind = FILES if name.startswith(_FILES) else name
    if kind == KAFKA and _GROUP in given:
        kind = f"{KAFKA} with a {_GROUP}"  # by which both queries would disturb each other
    return Source(kind, given.get(_CLEANS, "off") != "off")


def interval(run: Run) -> float:
    """Seconds between two batches, by the trigger of a query."""
    return float(run.handle.streamingQuery().trigger().intervalMs()) / 1000


def processing(run: Run) -> Sequence[float]:
    """Seconds that each of its last batches took."""
    told = [each.durationMs.get("triggerExecution") for each in run.started.handle.recentProgress]
    return [float(each) / 1000 for each in told[-_RECENT:] if each is not None]


class Replays:
    """Runs the query of `run` on the checkpoint in `place`, an entry of its log at a time.

    By a session of its own: no handle, no manager and no listener of the program knows of it.

    Args:
        changelogs: whether state stores write what is different in each version, too.
    """

    def __init__(self, run: Run, place: str, changelogs: bool) -> None:
        self._run, self._place = run, place
        frame = run.started.new.frame
        self._jvm = frame.sparkSession._jvm
        self._spark = frame.sparkSession._jsparkSession.cloneSession()
        # Each version whole: what is taken over must not hang on another one.
        self._spark.conf().set(CHANGELOGS, str(changelogs).lower())
        self._spark.conf().set(DELTAS, "1")
        # Or executors would keep the state of each replay, and not write versions whole, until
        # Spark's maintenance comes round.
        self._spark.conf().set(UNLOAD, "true")
        # Spark waits for ever for a batch that heeds no interrupt, as in a function of the program.
        self._spark.conf().set(STOP_TIMEOUT, "60s")
        plan = frame._jdf.logicalPlan()
        self._frame = self._jvm.org.apache.spark.sql.classic.Dataset.ofRows(self._spark, plan)
        self._mode = run.handle.streamingQuery().outputMode()
        self._once = self._jvm.org.apache.spark.sql.streaming.Trigger.Once()

    def replay(self, give_up: Callable[[], str | None]) -> None:
        """Run the last entry of the log, which is not done.

        Args:
            give_up: why it is not to go on, in words; None: it is.

        Raises:
            NotReplayed: it was given up, or has failed.
        """
        query = self._start()
        try:
            while not query.awaitTermination(_TURN_MS):
                if (why := give_up()) is not None:
                    raise NotReplayed(why)
        finally:
            if query.isActive():
                query.stop()

    def _start(self) -> Any:
        """Started with what the program's thread had set for its jobs, but in our pool."""
        spark = self._run.started.new.session._sc._jsc.sc()
        before = spark.getLocalProperties()
        ours = self._run.properties.clone()
        ours.setProperty(POOL, OURS)
        spark.setLocalProperties(ours)
        try:
            writer = self._frame.writeStream().format("noop").outputMode(self._mode)
            return writer.option("checkpointLocation", self._place).trigger(self._once).start()
        finally:
            spark.setLocalProperties(before)
