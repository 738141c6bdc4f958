"""From what an agent reported to what a stream did in the evaluation window. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dagster_sparkscale.observe.status import Batch, Query, Status

STALE_AFTER = 30.0
"""Seconds after which an agent's last answer from Spark no longer counts as a measurement. The
agent asks Spark at least every ten seconds, and whenever it is asked itself."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What one stream did in one window. None means not measured, never zero."""

    window: float
    """Seconds."""
    uptime: float | None = None
    """Seconds since the driver started."""
    ratio: float | None = None
    """R of the worst query: mean processing time of its completed batches / batch interval."""
    query: str | None = None
    """The query `ratio` was measured on."""
    overdue: float | None = None
    """Age of the batch in progress / batch interval, where that is above 1; of the worst query."""
    stalled: float | None = None
    """As `overdue`, of the worst query that completed no batch in the window: it has no R, and the
    R of the others says nothing about it."""
    completed: int = 0
    """Batches completed without a failed output operation, all queries together."""
    failed: int = 0
    """Batches of the window that failed, all queries together."""
    processing_ms: float | None = None
    """Mean of the worst query."""
    scheduling_ms: float | None = None
    """Mean of the worst query."""
    input_rate: float | None = None
    """Records per second of the window that entered completed batches, all queries together."""
    processed_rate: float | None = None
    """Records per second of processing time, all queries together."""
    backlog_records: int | None = None
    """Records that the sources have and no batch has taken yet, all queries together."""
    pending_batches: int | None = None
    """DStreams: batches that are due and not completed."""
    lag: float | None = None
    """Seconds that the query furthest behind is behind the tip of its source, where one tells."""
    lag_query: str | None = None
    """The query `lag` was measured on."""
    catching_up: float | None = None
    """Seconds of `lag` lost per second, over the batches of that query; below 0: it grows."""
    lag_paced: bool = False
    """Whether that query waits for its next interval once it has done a batch."""
    shards: int | None = None
    """Shards that all active queries together are reading at present; None as soon as one of them
    does not tell."""
    lost: int | None = None
    """How many times data was gone before it could be read, in all; ended queries included."""
    registered: int | None = None
    """Executors that have registered with the driver, those that are leaving included."""
    removing: int = 0
    """Of the registered, those told to leave that have not left yet. They get no new tasks."""
    requested: int | None = None
    """Executors asked of the cluster manager."""
    batch_interval: float | None = None
    """Seconds; as the running program has it, else as declared."""
    silence: str | None = None
    """Why `ratio` is None, in words."""

    @property
    def staying(self) -> int | None:
        """Executors that are registered and have not been told to leave."""
        return None if self.registered is None else max(0, self.registered - self.removing)


def evaluate(status: Status, *, window: float, batch_interval: float) -> Evaluation:
    """Evaluate the `window` seconds before the agent answered.

    R is what Spark's ExecutorAllocationManager computes, floor(mean processing time in ms) / batch
    interval in ms over the completed batches, those with a failed output operation left out. Each
    query is seen by itself and the worst decides.

    Args:
        status: what the agent reported.
        window: seconds.
        batch_interval: the declared batch interval in seconds, for queries that don't tell theirs.
    """
    fresh = status.spark_age is not None and status.spark_age <= STALE_AFTER
    batches = [b for b in status.batches if status.now - window < b.completed_at]
    good = [b for b in batches if not b.failed]
    intervals = {q.name: (q.interval_ms or batch_interval * 1000) for q in status.queries}
    active = [q for q in status.queries if q.active]

    worst: str | None = None
    ratio: float | None = None
    silent: list[Query] = []
    for query in active:
        measured = _mean_processing_ms(b for b in good if b.query == query.name)
        if measured is None:
            silent.append(query)
        else:
            candidate = int(measured) / intervals[query.name]
            if ratio is None or candidate > ratio:
                worst, ratio = query.name, candidate
    overdue = _overdue(active, intervals) if fresh else None
    stalled = _overdue(silent, intervals) if fresh else None

    late = _furthest_behind(active) if fresh else None
    of_worst = [b for b in good if b.query == worst]
    loaded = [b for b in good if b.records is not None]
    records = sum(b.records or 0 for b in loaded)
    busy_ms = sum(b.processing_ms for b in loaded)
    return Evaluation(
        window=window,
        uptime=status.now - status.started_at,
        ratio=ratio,
        query=worst,
        overdue=overdue,
        stalled=stalled,
        completed=sum(b.triggers for b in good),
        failed=len(batches) - len(good),
        processing_ms=_mean_processing_ms(of_worst),
        scheduling_ms=_mean([b.scheduling_ms for b in of_worst if b.scheduling_ms is not None]),
        input_rate=records / window if loaded else None,
        processed_rate=records * 1000 / busy_ms if records and busy_ms else None,
        backlog_records=_total([q.backlog_records for q in active]),
        pending_batches=_total([q.pending_batches for q in active]),
        lag=late.behind_ms / 1000 if late and late.behind_ms is not None else None,
        lag_query=late.name if late else None,
        catching_up=_catching_up(b for b in batches if late and b.query == late.name),
        lag_paced=bool(late and late.interval_ms),
        shards=status.source_shards if fresh else None,
        lost=_known([q.source_lost for q in status.queries]),
        registered=status.registered if fresh else None,
        removing=status.removing if fresh else 0,
        requested=status.requested if fresh else None,
        batch_interval=(intervals[worst] / 1000 if worst else batch_interval),
        silence=_why_silent(status, window, active, batches) if ratio is None else None,
    )


def _mean_processing_ms(batches: Iterable[Batch]) -> float | None:
    total = count = 0
    for batch in batches:
        total += batch.processing_ms
        count += batch.triggers
    return total / count if count else None


def _overdue(active: Sequence[Query], intervals: dict[str, float]) -> float | None:
    ages = [q.running_ms / intervals[q.name] for q in active if q.running_ms is not None]
    return max((age for age in ages if age > 1), default=None)


def _mean(values: Sequence[int]) -> float | None:
    return sum(values) / len(values) if values else None


def _total(values: Sequence[int | None]) -> int | None:
    """The sum, or None as soon as one part is unknown: a part is not the whole."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _known(values: Sequence[int | None]) -> int | None:
    """The sum of what is known: not every source loses data, or tells of it."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _furthest_behind(active: Sequence[Query]) -> Query | None:
    telling = [q for q in active if q.behind_ms is not None]
    return max(telling, key=lambda q: q.behind_ms or 0, default=None)


def _catching_up(batches: Iterable[Batch]) -> float | None:
    """Seconds of lag lost per second from the first of the batches that tells to the last; None
    if they do not span any time."""
    told = [(b.completed_at, b.behind_ms) for b in batches if b.behind_ms is not None]
    if not told:
        return None
    (began, before), (ended, after) = min(told), max(told)
    return (before - after) / 1000 / (ended - began) if ended > began else None


def _why_silent(
    status: Status, window: float, active: Sequence[Query], batches: Sequence[Batch]
) -> str:
    if status.phase == "starting":
        return "the driver is still starting"
    if not status.queries:
        return "the program has not started a query yet"
    if not active:
        errors = [q.error for q in status.queries if q.error]
        return "no query is active" + (f"; the last one failed: {errors[-1]}" if errors else "")
    names = {q.name for q in active}
    failed = sum(1 for b in batches if b.failed and b.query in names)
    if failed:
        return f"all {failed} batches of the last {window:g} s failed"
    return f"no batch completed in the last {window:g} s"
