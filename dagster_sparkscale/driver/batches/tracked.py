"""One Structured Streaming query as its events tell of it, and what is known of it besides; without
Spark."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from dagster_sparkscale.driver.spark.jvm import Lifetime
from dagster_sparkscale.driver.wire import QueryState

from .progress import backlog, milliseconds, reads_files
from .reports import NOTHING_TOLD, SourceReport, report_of


class Lag:
    """How far one query is behind, by the offsets of its sources: by default nothing is known."""

    partitions: dict[str, int] | None = None
    """Records behind, by `topic-partition`; None: not known."""
    unknown: str | None = None
    """Why a lag is not known, for people; None: it is, or there is none."""
    at_least_ms: int | None = None
    """The least lag of the query, where its lag is not known; None: nothing is known."""

    def see(self, at_ms: int, progress: Mapping[str, Any]) -> list[SourceReport | None]:
        """What the sources tell of themselves by a progress of their query, in their order; None
        for one of which nothing is known.

        Args:
            at_ms: when the trigger of that progress began, milliseconds since the epoch.
        """
        return []

    @property
    def reads(self) -> bool:
        """Whether the query reads from a source of which that can be known."""
        return False

    def end(self) -> None:
        """The query has ended."""


@dataclass(frozen=True, slots=True)
class NewQuery:
    """A query that the program is about to start."""

    session: Any
    """The SparkSession that starts it."""
    options: Mapping[str, str]
    """The options of its writer."""
    table: str | None = None
    """The table that it writes to; None: it is started by `start`."""
    label: Callable[[str, str], str] = lambda name, _id: name
    """What the agent will call it, by its name and its id."""
    frame: Any = None
    """The DataFrame that it writes."""
    format: str | None = None
    """The format that it is written in; None: the program has given none."""


@dataclass(frozen=True, slots=True)
class StartedQuery:
    """A query that the program has just started."""

    new: NewQuery
    handle: Any
    """PySpark's StreamingQuery, which the program gets."""
    writer: Any
    """The DataStreamWriter that has started it."""
    again: Callable[[], Any]
    """Starts it once more by its writer, which is as it is by then; returns a handle like that."""
    label: Callable[[], str | None]
    """What the agent calls it; None: it has ended."""
    ended: Callable[[], None]
    """Has the agent know that it has ended, before Spark's events tell."""


class KnownState(Protocol):
    """What is known of a query's state when the query starts."""

    @property
    def stateless(self) -> bool:
        """Whether the query has completed a batch, and keeps no state."""

    def completed(self, state: QueryState) -> QueryState:
        """`state`, with what is known of it."""

    def begun_with(self) -> QueryState | None:
        """The state that the query starts with, until a batch tells more; None: not known."""

    def remember(self) -> "KnownState":
        """Take note that the query has turned out to keep state. May wait for a file system."""


@dataclass
class TrackedQuery:
    """A query as its events tell of it. All times in milliseconds, since the epoch where they are
    points in time."""

    label: str
    run_id: str
    started_ms: int
    lifetime: Lifetime | None = None
    """The lifetime of the query's SparkContext."""
    active: bool = True
    error: str | None = None
    interval_ms: int | None = None
    """The trigger's interval; None where it has none, or it is not known yet."""
    kind: str | None = None
    """The kind of the trigger, as `Query.trigger`; None: not known yet."""
    trigger_ms: int | None = None
    """When the last trigger that is known of began."""
    completed_ms: int | None = None
    """When the last batch completed."""
    processing_ms: int | None = None
    """How long the last batch took; None after a trigger that found no data."""
    batch_id: int | None = None
    backlog: int | None = None
    reads_files: bool = False
    """Whether it has told of a source for files."""
    files_waiting: int | None = None
    """Files that such sources had found and no batch had taken when Spark was last asked."""
    report: SourceReport = NOTHING_TOLD
    """What its sources told of themselves when they were last asked."""
    told: bool = False
    """Whether they have been asked at all, since it started."""
    idled: bool = False
    """Whether it has found no data since: the report is then older than Spark's own."""
    doing: str | None = None
    """What Spark said that it does when it was last asked."""
    watermark: float | None = None
    """The event-time watermark of its last batch, seconds since the epoch; None: it has none."""
    most_rows: float | None = None
    """Records that the options of its sources let a batch have; infinity: all there are. None: not
    known."""
    lag: Lag = field(default_factory=Lag)
    """How far the offsets of its sources say that it is behind."""
    state: QueryState | None = None
    """What its last batch told of what it keeps; None: nothing."""
    known: KnownState | None = None
    """What was known of its state when it started; None: nothing."""

    def end(self) -> None:
        """Note that the query is not active any more. Its lost batches stay lost."""
        self.active, self.backlog = False, None
        self.report = SourceReport(lost=self.report.lost)
        self.lag.end()

    def report_by(self, progress: Mapping[str, Any]) -> None:
        """What its sources tell by a progress of it."""
        by_offsets = self.lag.see(milliseconds(progress["timestamp"]), progress)
        self.backlog, self.reads_files = backlog(progress), reads_files(progress)
        report = report_of(progress, by_offsets)
        if self.lag.unknown is not None:
            # Another source may tell of itself, and be less far behind.
            report = replace(report, behind_ms=None)
        self.report, self.told, self.idled = report, True, False

    @property
    def heard_ms(self) -> int:
        """When it last completed a batch or found no data, or began."""
        return max(self.started_ms, self.trigger_ms or 0, self.completed_ms or 0)

    def next_trigger(self, interval_ms: int) -> int:
        """When the trigger after the last one that is known of began, as Spark's
        `ProcessingTimeExecutor` has it: at the next multiple of the interval, or as soon as a
        batch that overran it was done."""
        if self.trigger_ms is None:
            return self.started_ms
        due = (self.trigger_ms // interval_ms + 1) * interval_ms
        return max(due, self.completed_ms or 0)
