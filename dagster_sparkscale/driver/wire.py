"""What an agent answers, as it goes over the wire.

An answer is the JSON of these dataclasses; standard library only. The driver makes it, and Dagster
reads it (`observe/status.py`), which may be older or newer: a field may be added, with a
default, and none may change what it means. None is "not measured"; nothing on the way makes a zero
of it.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

LARGEST = 2**63
"""Whole numbers on the wire are below it."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One completed batch; or, with `processing_ms` 0 and no records, triggers without data."""

    query: str
    completed_at: float
    """Seconds since the epoch, by the driver's clock."""
    processing_ms: int
    scheduling_ms: int | None = None
    records: int | None = None
    failed: bool = False
    """A failed output operation, or a query that died in this batch."""
    triggers: int = 1
    """How many triggers this stands for; above 1 only where triggers found no data."""
    batch_id: int | None = None
    """Structured Streaming: the batch's number. DStreams: its time, epoch milliseconds."""
    behind_ms: int | None = None
    """How far behind the tip of its source the query was; None where the source does not tell."""
    planning_ms: int | None = None
    """The part of `processing_ms` that the driver spent by itself: finding offsets, planning, the
    query's logs; all but the work of executors. None where Spark does not say, such as for
    DStreams."""
    cold: bool = False
    """The first batch with work of its query in this driver: it loads and compiles the code that
    later ones find ready, and says little of how long those take."""
    executors: int | None = None
    """Executors that were registered when it completed; None where that was not known."""
    limit: float | None = None
    """Records that the sources of its query might give it at most, by the limits in force when it
    was planned; None: one of them had no limit, or that is not known."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What limits a source at present, and why."""

    source: str
    query: str | None = None
    """The query that reads it, by `Query.name`; None where it is not known."""
    rate: float | None = None
    """Records per second that it may take; None: as many as it likes."""
    by: str = "nobody"
    """The origin of the limit in force: `estimator`, `max_rate` (no estimate is above it), `set`
    (by a person or by Dagster), `start` (the first limit, before any estimate) or `nobody`."""
    taken: bool | None = None
    """Whether the source has shown that it heeds the limit; None: not known (yet)."""
    estimator: str | None = None
    """`work` or `pid`; None: none is at work on it."""
    estimate: float | None = None
    """Records per second that the estimator would give it; None: it has no estimate yet."""
    estimated_at: float | None = None
    """When that was, seconds since the epoch, by the driver's clock."""
    reason: str | None = None
    """How the estimator came to it, for people."""
    records: int | None = None
    """What it saw of the batch before: its records of this source."""
    processing_ms: int | None = None
    """How long that batch took."""
    scheduling_ms: int | None = None
    """How long it had waited."""


@dataclass(frozen=True, slots=True)
class Receiver:
    """A receiver of a DStreams application, where it is and how it does."""

    stream_id: int
    name: str | None = None
    """The receiver's class."""
    executor: str | None = None
    """The executor where it runs; None: none at the moment, such as while it starts."""
    host: str | None = None
    since: float | None = None
    """Since when it is seen there, seconds since the epoch, by the driver's clock."""
    moving_to: str | None = None
    """The executor that it has been sent to and does not run on yet; None: it stays."""
    rate: float | None = None
    """Records per second that it took of late; None: no batch was completed yet."""
    error: str | None = None
    """What it last failed of, for people; None: nothing."""


@dataclass(frozen=True, slots=True)
class Relaunch:
    """A receiver that was away from where it ran, until it ran again."""

    stream_id: int
    cause: str
    """`move` (it was sent), `evacuation` (its executor was to be removed), `executor lost` or
    `restart` (it ended and was started anew)."""
    from_executor: str | None
    began_at: float
    """Seconds since the epoch, by the driver's clock."""
    to_executor: str | None = None
    """The executor where it runs since; None: it is still away."""
    wanted: str | None = None
    """The executor that it was sent to; None: Spark chose."""
    away_seconds: float | None = None
    """Seconds for which its stream had no active receiver; None: it is still away."""
    operation: int | None = None
    """The number of the operation that has sent it; None: none has."""


@dataclass(frozen=True, slots=True)
class Reconfiguration:
    """A change of the state partitions of one query, in progress or done."""

    id: str
    """The plan's id; a change that an earlier driver began has that driver's plan."""
    query: str
    """The query's name, as `Query.name`."""
    step: str
    """`checking`, `measuring`, `writing down`, `rewriting`, `verifying`, `undoing`, `closing` or
    `over`; in place `preparing` and `ending` before these, and `starting` after them. Beside the
    stream `adding executors` (where that is asked for), `copying`, `rewriting beside`, `comparing`
    and `catching up` before `ending`, and `replaying` and `moving in` instead of `rewriting`;
    with `comparing changes` before `moving in`, and `accepting` after it in place of `verifying`
    where those are the same."""
    began_at: float
    """Seconds since the epoch, by the driver's clock."""
    outcome: str | None = None
    """`changed`, `unchanged` (it has that number already), `refused` (nothing was touched),
    `undone` (all is as it was) or `failed` (it could not be put back); None: in progress."""
    reason: str | None = None
    """Why it came to that, for people."""
    before: int | None = None
    """Partitions before it."""
    after: int | None = None
    """Partitions that it is to have, or has."""
    key_groups: int | None = None
    rows: int | None = None
    """The rows of the state, counted before the change."""
    seconds: Mapping[str, float] | None = None
    """How long each step took."""
    group_rows: tuple[int, ...] | None = None
    """Rows of each key group, all operators together."""
    partition_rows: tuple[int, ...] | None = None
    """Rows of each partition before the change, all operators together."""
    partition_rows_after: tuple[int, ...] | None = None
    way: str = "restart"
    """`restart` (at the start of a driver, before its query started), `in place` (while the driver
    ran: its query was ended, and started again) or `beside the stream` (also that, and the new
    state was made while the query ran)."""
    restart: bool = False
    """Whether a restart of the driver may do what was refused in place."""
    down: str | None = None
    """In place: why its query was not started again, for people; None: it was, or never ended."""
    over_at: float | None = None
    """When it was over, seconds since the epoch, by the driver's clock; None: it is not, or the
    driver is of a release that does not tell."""
    beside: str | None = None
    """Why it was not made beside the stream, for people; None: it was, or that was not asked."""
    lacked: str | None = None
    """Why the stream did not have the executors more that were to be there meanwhile, for people;
    None: it had them, or none were asked for."""
    behind: int | None = None
    """Beside the stream: batches that the copy lacked when it was last looked at; None: there is no
    copy yet."""


@dataclass(frozen=True, slots=True)
class QueryState:
    """What a stateful query keeps between its batches, all of its operators together."""

    rows: int | None = None
    bytes: int | None = None
    """Memory that the state stores use on executors, as Spark tells it."""
    partitions: int | None = None
    """Partitions of each of its operators, fixed by the checkpoint."""
    operators: tuple[str, ...] = ()
    """Spark's names of the operators, such as `stateStoreSave`."""
    provider: str | None = None
    """Class of the state store provider, as the checkpoint has it."""
    key_groups: int | None = None
    """The key groups that are remembered beside the checkpoint; None: none were declared yet."""
    note: str | None = None
    """The part of the declaration that can't be met, for people; None: all is met."""
    unchangeable: str | None = None
    """Why its partitions can't be changed, whatever is done, for people; None: nothing is known
    against it."""
    last: Reconfiguration | None = None
    """What was last made of its partitions, by whichever driver; None: nothing that is known."""


@dataclass(frozen=True, slots=True)
class Query:
    """A Structured Streaming query, or the one graph of a DStreams application."""

    name: str
    active: bool
    interval_ms: int | None = None
    """The batch duration that the running program really has; None where Spark does not tell."""
    running_ms: int | None = None
    """Age of the batch being processed now; None when there is none."""
    pending_batches: int | None = None
    backlog_records: int | None = None
    error: str | None = None
    behind_ms: int | None = None
    """How far behind the tip of its source it is, by time; of the source that is furthest behind.
    None where no source tells, as for the two below."""
    source_shards: int | None = None
    """Shards (partitions of the sources) that are being read at present; None as soon as one of
    its sources does not tell."""
    source_lost: int | None = None
    """How many times data was gone before it could be read, in all."""
    trigger: str | None = None
    """Structured Streaming: `processing time` (as fast as possible, too), `real time`,
    `continuous`, `available now` or `once`. None where it is not known."""
    heard_at: float | None = None
    """When it last completed a batch or found no data, or when it began if it has done neither:
    seconds since the epoch, by the driver's clock. None where that is not known."""
    cold: bool = False
    """Whether its first batch with work is still to come, or in progress."""
    state: QueryState | None = None
    """None: it keeps none, or has not told of it yet."""
    stateless: bool = False
    """Whether its checkpoint shows that it keeps no state, before a batch tells."""
    partitions_behind: Mapping[str, int] | None = None
    """Records in Kafka that no batch has taken yet, by `topic-partition`; at most the 20 partitions
    that are furthest behind. None: the query reads none, or the lag of one is not known."""
    lag_unknown: str | None = None
    """Why it is not known how far the query is behind Kafka, for people. None: it is known, or the
    query does not read from Kafka."""
    behind_at_least_ms: int | None = None
    """How far it is behind Kafka at least, by the partitions whose lag is known, where that of all
    is not. None: nothing is known, or all is."""
    watermark: float | None = None
    """The event-time watermark, seconds since the epoch. None: it has none, or none yet."""
    doing: str | None = None
    """What Spark says that it does at the moment, such as `Getting offsets from
    KafkaV2[Subscribe[clicks]]`. None: it is not active, or that was not asked yet."""
    files_waiting: int | None = None
    """Files that its file sources have found and no batch has taken yet, at least: as far as Spark
    remembers them. None: it remembers none, or the query reads no files."""


@dataclass(frozen=True, slots=True)
class Totals:
    """What the batches with work of one query came to since its driver started."""

    query: str
    completed: int
    """Batches without a failed output operation."""
    failed: int
    processing_ms: int
    """What the completed batches took in all."""
    records: int | None = None
    """The records of the completed batches in all; None: those of one of them are not known."""


@dataclass(frozen=True, slots=True)
class Executor:
    """A registered executor."""

    id: str
    host: str
    cores: int
    active_tasks: int = 0
    receivers: int = 0


@dataclass(frozen=True, slots=True)
class Spark:
    """What Spark said when the agent last asked it."""

    age: float | None = None
    """Seconds since then; None before the first answer. Of queries, see `Answer.ages`."""
    registered: int | None = None
    requested: int | None = None
    removing: int = 0
    """Executors told to leave that have not left yet. They still count as registered."""
    blocked: str | None = None
    """Why a scale-down can't go on, such as executors that hold receivers; None if nothing is."""
    executors: tuple[Executor, ...] = ()


@dataclass(frozen=True, slots=True)
class StageTimes:
    """A stage that has ended, and the longest of its tasks."""

    tasks: int
    wall_ms: int
    """From the launch of its first task to its end."""
    run_ms: int
    """What its tasks took in all."""
    gc_ms: int | None = None
    """What of that was garbage collection."""
    median_ms: int | None = None
    """How long the task in the middle ran."""
    longest_ms: int | None = None
    partition: int | None = None
    """The partition that the longest task computed."""
    executor: str | None = None
    """The executor on which the longest task ran."""
    executor_tasks: int | None = None
    """How many of the stage's tasks that executor ran."""
    executor_ms: int | None = None
    """What these took in all."""


@dataclass(frozen=True, slots=True)
class ExecutorTimes:
    """What the tasks took that have ended on one executor."""

    id: str
    host: str
    tasks: int
    run_ms: int
    gc_ms: int


@dataclass(frozen=True, slots=True)
class TaskTimes:
    """What the tasks of the last minute or so took, by Spark's own accounts."""

    seconds: float
    """The time that this is about."""
    batch_ms: int | None = None
    """How long a batch was in progress, two at a time counted once. None: not known."""
    job_ms: int | None = None
    """The part of that in which a job of Spark's ran; in the rest the driver was busy by itself.
    None: not known."""
    executors: tuple[ExecutorTimes, ...] = ()
    """At most 50, the slowest one among them."""
    stages: tuple[StageTimes, ...] = ()
    """The longest stage of the longest job, for every few seconds, oldest first; at most 12."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to `GET /v1/status`, and to every change that succeeded."""

    stream: str
    epoch: int
    phase: str
    """`starting`, `running`, `stopping` or `ended`."""
    now: float
    """The driver's clock, seconds since the epoch."""
    started_at: float
    last_seq: int
    """Number of batches the agent has ever recorded."""
    dropped_at: float | None = None
    """When the last batch completed that is not kept any more, by the driver's clock; None: all
    are."""
    app_id: str | None = None
    ui_url: str | None = None
    spark: Spark = Spark()
    queries: tuple[Query, ...] = ()
    batches: tuple[Batch, ...] = ()
    rates: Mapping[str, Any] | None = None
    """The live limits that are set, by source and limit; what is in force is in `limits`. None
    where the agent has none."""
    operation: int | None = None
    """The highest number of an operation that has asked for a change; None: none with a number."""
    spark_version: str | None = None
    missing: tuple[str, ...] = ()
    """What can't be told or done, as this Spark lacks what it needs; each for people."""
    lacks: tuple[str, ...] = ()
    """The ids of the features that this Spark lacks, as `driver/spark/features.py` has them. A
    driver of a release without ids has none, and says so in `missing` alone."""
    ages: Mapping[str, float | None] | None = None
    """Seconds since each part of Spark was last seen, by its name: `executors`, `receivers`,
    `tasks`, `dstreams`, `queries`; null: not yet. One that is held up grows old alone."""
    limits: tuple[Limit, ...] = ()
    """What limits the sources that are known to take live limits."""
    receivers: tuple[Receiver, ...] | None = None
    """The receivers by stream id; empty: the program has none. None: not known."""
    relaunches: tuple[Relaunch, ...] = ()
    """The latest of this driver, oldest first; at most 50."""
    reconfigurations: tuple[Reconfiguration, ...] | None = None
    """What this driver has changed of the state of its queries, or is changing, in order. None: it
    is of a release that knows nothing of state, and tells nothing of it."""
    in_place: Mapping[str, str | None] | None = None
    """The queries that run, and why the partitions of the state of each can't be changed while the
    driver runs, for people; None: they can, as far as that is known before it is tried. In place of
    all None: the driver is of a release that changes them at its start alone."""
    beside: Mapping[str, str | None] | None = None
    """The queries that run, and why what each reads can't be read a second time, as a change beside
    the stream does, for people; None: it can. In place of all None: the driver is of a release that
    changes nothing beside the stream."""
    tasks: TaskTimes | None = None
    """None: not known, as in a driver of an older release."""
    totals: tuple[Totals, ...] | None = None
    """The batches of each query, added up; those of the latest queries where these are many. None:
    the driver is of an older release."""
    waits_for_slots: str | None = None
    """What a query waits for that is not started yet, as too few task slots have registered, for
    people. None: none waits."""
    api: int = 1

    def as_json(self) -> dict[str, Any]:
        return asdict(self)
