"""Evaluates an agent's report: what a stream did in the evaluation window. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dagster_sparkscale.observe import throttling
from dagster_sparkscale.observe.evaluation import Evaluation, Load
from dagster_sparkscale.observe.gathering import fullest, gathered, latest
from dagster_sparkscale.observe.receivers import active as active_receivers
from dagster_sparkscale.observe.status import Batch, Query, Status

STALE_AFTER = 30.0
"""Seconds after which an agent's last answer from Spark no longer counts as a measurement. The
agent asks Spark at least every ten seconds, and whenever it is asked itself."""
SILENT_AFTER = 3
"""Windows, and batch intervals, after which a query that nothing was heard of counts as silent."""
WARM_UP = 30.0
"""Seconds that a query's first batch in a driver may take beyond its interval before it counts as
overdue. A cold JVM costs seconds, however long the interval is; what takes longer is load."""
REAL_TIME = "real time"
"""The trigger of a query in real-time mode, as a status has it."""
UNPACED = (REAL_TIME, "continuous")
"""Triggers whose batches last as long as they are told to, or that have none: no R."""


def evaluate(
    status: Status, *, window: float, batch_interval: float, newest: int = 0
) -> Evaluation:
    """Evaluate the `window` seconds before the agent answered.

    R is what Spark's ExecutorAllocationManager computes, floor(mean processing time in ms) / batch
    interval in ms over the completed batches, those with a failed output operation left out, and
    unlike there the first one of a query in its driver. Each query is seen by itself and the worst
    decides; one that is not active any more does not count.

    Args:
        status: what the agent reported.
        window: seconds.
        batch_interval: the declared batch interval in seconds, for queries that don't tell theirs.
        newest: how many of the batches that were recorded last count even if they completed before.
    """
    now = _Window.of(status, window, batch_interval, newest)
    load = _load_fields(now)
    return Evaluation(
        window=window,
        uptime=status.now - status.started_at,
        **load,
        **_flow_fields(now),
        **_lag_fields(now),
        **_executor_fields(now),
        **_limit_fields(now, load["loads"]),
    )


_Fields = dict[str, Any]
"""Some of the fields of an `Evaluation`, by name."""


@dataclass(frozen=True)
class _Window:
    """What an agent reported, cut to the window."""

    status: Status
    seconds: float
    batch_interval: float
    """The declared one, in seconds."""
    fresh: bool
    """Whether the agent's last answer from Spark counts as a measurement."""
    batches: list[Batch]
    good: list[Batch]
    """The batches that did not fail."""
    intervals: dict[str, float]
    """Milliseconds, by query."""
    active: list[Query]
    live: list[Query]
    """The active queries, where what Spark said of them counts as a measurement."""

    @classmethod
    def of(cls, status: Status, seconds: float, batch_interval: float, newest: int) -> "_Window":
        older = len(status.batches) - newest
        batches = [
            batch
            for number, batch in enumerate(status.batches)
            if status.now - seconds < batch.completed_at or number >= older
        ]
        active = [q for q in status.queries if q.active]
        fresh = status.spark_age is not None and status.spark_age <= STALE_AFTER
        return cls(
            *(status, seconds, batch_interval, fresh, batches),
            good=[b for b in batches if not b.failed],
            intervals={q.name: (q.interval_ms or batch_interval * 1000) for q in status.queries},
            active=active,
            live=active if fresh else [],
        )

    def warm(self, query: str | None) -> list[Batch]:
        """The batches of a query that count for R: its first one in a driver does not."""
        return [b for b in self.good if not b.cold and b.query == query]


def _load_fields(now: _Window) -> _Fields:
    """How loaded the queries are: R, and what is overdue or silent."""
    paced = [q for q in now.active if q.trigger not in UNPACED]
    measured = [(q, _load(q.name, now.warm(q.name), now.intervals[q.name])) for q in paced]
    loads = sorted((load for _, load in measured if load), key=lambda load: -load.ratio)
    unmeasured = [q for q, load in measured if load is None]
    warming = [q for q in unmeasured if _is_warming(q, now.good, now.intervals)]
    counted = [q for q in unmeasured if q not in warming or not q.cold]
    worst = loads[0] if loads else None
    of_worst = now.warm(worst.query if worst else None)
    if not now.fresh:
        paced = counted = []
    ages = [query.running_ms / 1000 for query in paced if query.running_ms is not None]
    overdue, overdue_for = _overdue(paced, now.intervals)
    stalled, stalled_for = _overdue(counted, now.intervals)
    silent, silent_query = _silent(now.status, paced, now.intervals, now.seconds)
    return {
        "ratio": worst.ratio if worst else None,
        "query": worst.query if worst else None,
        "loads": tuple(loads),
        "unpaced": tuple(q.name for q in now.active if q.trigger in UNPACED),
        "overdue": overdue,
        "overdue_for": overdue_for,
        "stalled": stalled,
        "stalled_for": stalled_for,
        "batch_for": max(ages, default=None),
        "silent": silent,
        "silent_query": silent_query,
        "warming": warming[0].name if warming else None,
        "processing_ms": _mean_processing_ms(of_worst),
        "scheduling_ms": _mean([b.scheduling_ms for b in of_worst if b.scheduling_ms is not None]),
        "batch_interval": now.intervals[worst.query] / 1000 if worst else now.batch_interval,
        "silence": None if worst else _why_silent(now, warming),
    }


def _flow_fields(now: _Window) -> _Fields:
    """How many batches and records went through, and how many wait."""
    status, names = now.status, {q.name for q in now.active}
    loaded = [b for b in now.good if b.records is not None]
    records = sum(b.records or 0 for b in loaded)
    kept = now.seconds
    if status.dropped_at is not None:
        kept = min(kept, status.now - status.dropped_at)
    busy_ms = sum(b.processing_ms for b in loaded)
    peak_rate, delay = _uneven(now)
    else_ms = now.batch_interval * 1000
    gathered_ms = sum(b.triggers * now.intervals.get(b.query, else_ms) for b in loaded)
    return {
        "completed": sum(b.triggers for b in now.good if b.query in names),
        "failed": len(now.batches) - len(now.good),
        "input_rate": records / kept if loaded and kept > 0 else None,
        "gathered_rate": records * 1000 / gathered_ms if gathered_ms else None,
        "processed_rate": records * 1000 / busy_ms if records and busy_ms else None,
        "peak_rate": peak_rate,
        "delay": delay,
        "backlog_records": _total([q.backlog_records for q in now.live]),
        "files_waiting": _known([q.files_waiting for q in now.live]),
        "pending_batches": _total([q.pending_batches for q in now.live]),
    }


def _uneven(now: _Window) -> tuple[float | None, float | None]:
    """Records per second of the fullest batch, and the longest delay in seconds."""
    peaks, delays = [], []
    for query in now.active:
        if query.trigger in UNPACED:
            continue
        batches = [b for b in now.batches if b.query == query.name]
        known = [b for b in now.status.batches if b.query == query.name]
        before = known[-len(batches) - 1] if len(known) > len(batches) else None
        interval = now.intervals[query.name] / 1000
        queues = query.pending_batches is not None
        paced = queues or query.interval_ms is not None
        found = gathered(batches, before, interval, queues, paced)
        peaks.append(fullest(found, interval))
        delays.append(latest(found, interval, queues, paced))
    full, late = [p for p in peaks if p is not None], [d for d in delays if d is not None]
    return sum(full) if full else None, max(late, default=None)


def _lag_fields(now: _Window) -> _Fields:
    """How far the queries are behind the tips of their sources, and what those have lost."""
    found: _Fields = {}
    late = _furthest_behind(now.live)
    if late is not None and late.behind_ms is not None:
        found = {
            "lag": late.behind_ms / 1000,
            "lag_query": late.name,
            "catching_up": _catching_up(b for b in now.batches if b.query == late.name),
            "lag_paced": bool(late.interval_ms),
        }
    return found | {
        "lag_unknown": next((q.lag_unknown for q in now.live if q.lag_unknown), None),
        "lag_at_least": _at_least(now.live),
        "shards": now.status.source_shards if now.fresh else None,
        "lost": _known([q.source_lost for q in now.status.queries]),
    }


def _executor_fields(now: _Window) -> _Fields:
    """Evaluate the executors and what they do."""
    status = now.status
    if not now.fresh:
        return {}
    return {
        "active_tasks": _active_tasks(status),
        "registered": status.registered,
        "removing": status.removing,
        "requested": status.requested,
        "receivers": active_receivers(status) if status.receivers else None,
    }


def _limit_fields(now: _Window, loads: Sequence[Load]) -> _Fields:
    """What limits the queries, and which takes all that it may."""
    by_load = [load.query for load in loads]
    limited = throttling.throttled(now.active, by_load, now.batches)
    of_it = [q for q in now.active if q.name == limited]
    its_own = throttling.allowed(of_it, now.batches, now.intervals)
    return {
        "limit": throttling.allowed(now.active, now.batches, now.intervals),
        "throttled": limited,
        "throttled_by": throttling.whose(now.status, limited, its_own),
        "throttled_limit": its_own,
        "throttled_lag": throttling.behind(now.live, limited),
    }


def _load(name: str, batches: Sequence[Batch], interval_ms: float) -> Load | None:
    """What the completed batches of one query amount to; None if there are none."""
    mean = _mean_processing_ms(batches)
    if mean is None:
        return None
    planned = _total([b.planning_ms for b in batches if b.processing_ms])
    count = sum(b.triggers for b in batches)
    planning = None if planned is None else int(planned / count) / interval_ms
    return Load(name, int(mean) / interval_ms, planning)


def _is_warming(query: Query, batches: Sequence[Batch], intervals: dict[str, float]) -> bool:
    """Whether a query that has no R has none for its first batch: it goes on, or was the only one
    of `batches`."""
    if query.cold and query.running_ms is not None:
        return query.running_ms <= intervals[query.name] + WARM_UP * 1000
    return any(batch.cold for batch in batches if batch.query == query.name)


def _silent(
    status: Status, queries: Sequence[Query], intervals: dict[str, float], window: float
) -> tuple[float | None, str | None]:
    """The seconds since the query that has been silent longest was heard of, and which it is; none
    if no query has been for too long."""
    found = []
    for query in queries:
        if query.heard_at is None:
            continue
        # The batches come at once; the rest is from when the agent last looked at Spark.
        completed = [b.completed_at for b in status.batches if b.query == query.name]
        seconds = status.now - max([query.heard_at, *completed])
        patience = SILENT_AFTER * max(window, intervals[query.name] / 1000)
        if seconds > patience:
            found.append((seconds, query.name))
    return max(found, default=(None, None))


def _active_tasks(status: Status) -> int | None:
    """Tasks in progress; None if they are not told of every executor that is registered."""
    if not status.executors or len(status.executors) != status.registered:
        return None
    return sum(max(0, e.active_tasks - e.receivers) for e in status.executors)


def _mean_processing_ms(batches: Iterable[Batch]) -> float | None:
    total = count = 0
    for batch in batches:
        total += batch.processing_ms
        count += batch.triggers
    return total / count if count else None


def _overdue(
    active: Sequence[Query], intervals: dict[str, float]
) -> tuple[float | None, float | None]:
    """Age of the batch in progress that is furthest beyond its interval, in intervals and in
    seconds; None where each is within its own."""
    ages = [
        (q.running_ms / intervals[q.name], q.running_ms / 1000)
        for q in active
        if q.running_ms is not None
    ]
    return max((age for age in ages if age[0] > 1), default=(None, None))


def _mean(values: Sequence[int]) -> float | None:
    return sum(values) / len(values) if values else None


def _total(values: Sequence[int | None]) -> int | None:
    """The sum, or None as soon as one part is unknown: a part is not the whole."""
    return None if None in values else _known(values)


def _known(values: Sequence[int | None]) -> int | None:
    """The sum of what is known: not every source loses data, or tells of it."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _furthest_behind(active: Sequence[Query]) -> Query | None:
    telling = [q for q in active if q.behind_ms is not None]
    return max(telling, key=lambda q: q.behind_ms or 0, default=None)


def _at_least(active: Sequence[Query]) -> float | None:
    known = [q.behind_at_least_ms for q in active if q.behind_at_least_ms is not None]
    return max(known) / 1000 if known else None


def _catching_up(batches: Iterable[Batch]) -> float | None:
    """Seconds of lag lost per second from the first of the batches that tells to the last; None
    if they do not span any time."""
    known = [(b.completed_at, b.behind_ms) for b in batches if b.behind_ms is not None]
    if not known:
        return None
    (began, before), (ended, after) = min(known), max(known)
    return (before - after) / 1000 / (ended - began) if ended > began else None


def _why_silent(now: _Window, warming: Sequence[Query]) -> str:
    """Why no query has an R, in words."""
    status, active, window = now.status, now.active, now.seconds
    if status.phase == "starting":
        return "the driver is still starting"
    if not status.queries:
        return "the program has not started a query yet"
    if not active:
        errors = [q.error for q in status.queries if q.error]
        return "no query is active" + (f"; the last one failed: {errors[-1]}" if errors else "")
    unpaced = [q for q in active if q.trigger in UNPACED]
    if len(unpaced) == len(active):
        return (
            f"it means nothing for query {unpaced[0].name!r}, which has a {unpaced[0].trigger} "
            "trigger: its batches take as long as they are told to; where its source tells how far "
            "behind it is, max_lag can scale it up"
        )
    names = {q.name for q in active}
    failed = sum(1 for b in now.batches if b.failed and b.query in names)
    if failed:
        return f"all {failed} batches of the last {window:g} s failed"
    if warming:
        whose = f"the first batch of query {warming[0].name!r} since the driver started"
        slow = "one takes longer than others, as code is loaded and compiled in it"
        if warming[0].cold:
            return f"{whose} is in progress, and that {slow}"
        return f"only {whose} has completed, and that {slow}"
    return f"no batch completed in the last {window:g} s"
