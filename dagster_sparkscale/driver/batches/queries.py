"""What is known of each Structured Streaming query, from its events. No Spark in here."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from dagster_sparkscale.driver.spark.jvm import Lifetime
from dagster_sparkscale.driver.wire import Batch, Query

from .history import History
from .progress import limit_by_options, milliseconds, planning, state_of, watermark, why_it_died
from .reports import NOTHING_TOLD, DoneBatch, inputs_of
from .tracked import KnownState, Lag, TrackedQuery

Completed = Callable[[DoneBatch], Batch]
"""Is called with each batch that has completed; returns it with what was known then."""

ENDED_KEPT = 50
"""Queries that have ended and are still listed, at most."""
MOST_DOING = 300
"""Characters kept of what Spark says that a query does."""
LAG_KEPT_MS = 60_000
"""Milliseconds for which a lag of Kafka is told after the query was last heard of, or three batch
intervals where these are more: where the broker is away the query is not heard of, and goes on
falling behind."""


class Queries:
    """All queries of an application, fed with the JSON of their events. Safe for threads.

    One class, though long: each event and each question takes the one lock, and little more.

    Args:
        interval_ms: stands in where a trigger has no interval of its own, milliseconds.
        completed: is told of each batch, and adds to it. It must not wait: Spark's bus of events
            does meanwhile.
        lag: makes what measures how far one query is behind by its offsets.
    """

    def __init__(
        self,
        history: History,
        interval_ms: int,
        clock: Callable[[], float] = time.time,
        completed: Completed = lambda done: done.batch,
        lag: Callable[[], Lag] = Lag,
    ) -> None:
        self._history, self._lag = history, lag
        self._completed = completed
        self._interval_ms = interval_ms
        self._clock = clock
        self._lock = threading.Lock()
        self._queries: dict[str, TrackedQuery] = {}

    def started(self, event: Mapping[str, Any], lifetime: Lifetime | None = None) -> None:
        """`QueryStartedEvent`, of a query that lives no longer than that."""
        self.end_with_context()  # one of a context that is gone has given its name back
        with self._lock:
            label = self._label(event.get("name") or event["id"], event["id"])
            self._queries.pop(label, None)  # started again, it is the newest
            self._queries[label] = TrackedQuery(
                label, event["runId"], milliseconds(event["timestamp"]), lifetime, lag=self._lag()
            )
            ended = [query.label for query in self._queries.values() if not query.active]
            for old in ended[: max(0, len(ended) - ENDED_KEPT)]:
                del self._queries[old]

    def label(self, name: str, id: str) -> str:
        """What a query is called that starts now."""
        with self._lock:
            return self._label(name, id)

    def active_label(self, run_id: str) -> str | None:
        """What an active query is called; None: it has ended, or is not known."""
        with self._lock:
            query = self._find(run_id)
            return query.label if query is not None and query.active else None

    def _label(self, name: str, id: str) -> str:
        same = self._queries.get(name)
        # Of two sessions: names are unique in one.
        return f"{name} {id[:8]}" if same is not None and same.active else name

    def progressed(self, event: Mapping[str, Any]) -> None:
        """`QueryProgressEvent`: a trigger has run a batch."""
        progress = event["progress"]
        durations = progress["durationMs"]
        lasted = durations.get("triggerExecution", progress.get("batchDuration"))  # 3.5: the first
        if lasted is None:
            return
        took = int(lasted)
        with self._lock:
            query = self._find(progress["runId"])
            if query is None or not query.active:
                return
            interval = query.interval_ms or self._interval_ms
            overran = max(0, (query.processing_ms or 0) - interval)
            began = milliseconds(progress["timestamp"])
            # Spark posts no event for the odd trigger without data between two batches.
            if query.trigger_ms is not None:
                self._found_nothing(
                    query, (began - query.next_trigger(interval)) // interval, began
                )
            query.trigger_ms = began
            query.completed_ms = query.trigger_ms + took
            query.processing_ms = took
            query.batch_id = int(progress["batchId"])
            query.report_by(progress)
            query.state = state_of(progress) or query.state
            query.watermark = watermark(progress)
            batch = Batch(
                query=query.label,
                completed_at=query.completed_ms / 1000,
                processing_ms=took,
                scheduling_ms=overran,
                records=int(progress["numInputRows"]),
                batch_id=query.batch_id,
                behind_ms=query.report.behind_ms,
                planning_ms=planning(durations, took),
            )
            batch = self._completed(DoneBatch(batch, interval, inputs_of(progress)))
            if batch.limit is None:
                batch = replace(batch, limit=limit_by_options(query.most_rows, progress))
            self._history.add(batch)

    def idled(self, event: Mapping[str, Any]) -> None:
        """`QueryIdleEvent`: triggers have found no data.

        Spark posts one in spark.sql.streaming.noDataProgressEventInterval (10 s), however many
        triggers there were: they are counted from the time since the last trigger known of.
        """
        with self._lock:
            query = self._find(event["runId"])
            if query is None or not query.active:
                return
            at = milliseconds(event["timestamp"])
            interval = query.interval_ms or self._interval_ms
            earlier = (at - query.next_trigger(interval)) // interval
            query.trigger_ms, query.processing_ms = at, None
            query.idled = query.report != NOTHING_TOLD or not query.told
            self._found_nothing(query, max(0, earlier) + 1, at)

    def _found_nothing(self, query: TrackedQuery, triggers: int, at_ms: int) -> None:
        if triggers > 0:
            self._history.add(
                Batch(
                    query=query.label,
                    completed_at=at_ms / 1000,
                    processing_ms=0,
                    scheduling_ms=0,
                    records=0,
                    triggers=triggers,
                )
            )

    def terminated(self, event: Mapping[str, Any]) -> None:
        """`QueryTerminatedEvent`: stopped, finished or died."""
        with self._lock:
            query = self._find(event["runId"])
            if query is None:
                return
            query.end()
            if not event.get("exception"):
                return
            query.error = why_it_died(event["exception"])
            now = int(self._clock() * 1000)
            began = query.next_trigger(query.interval_ms or self._interval_ms)
            self._history.add(
                Batch(
                    query=query.label,
                    completed_at=now / 1000,
                    processing_ms=max(0, now - began),
                    failed=True,
                    batch_id=None if query.batch_id is None else query.batch_id + 1,
                )
            )

    def end_with_context(self) -> None:
        """End the queries whose SparkContext is gone: Spark's bus of events went with it, so that
        no event tells of their end."""
        with self._lock:
            for query in self._queries.values():
                if query.active and query.lifetime is not None and query.lifetime.over:
                    query.end()

    def _find(self, run_id: str) -> TrackedQuery | None:
        found = (query for query in self._queries.values() if query.run_id == run_id)
        return next(found, None)

    def note(self, run_id: str, **known: Any) -> None:
        """Note what Spark says of a query, by the fields of `TrackedQuery`."""
        with self._lock:
            if query := self._find(run_id):
                for name, value in known.items():
                    setattr(query, name, value)

    def set_known(self, run_id: str, known: KnownState) -> None:
        """Note what is known of a query's state."""
        with self._lock:
            if query := self._find(run_id):
                query.known, query.state = known, query.state or known.begun_with()

    def of_unknown_limit(self) -> list[str]:
        """Run ids of the active queries that have completed a batch, and of which it is not known
        what the options of their sources let them read."""
        return self._those(lambda q: q.active and q.told and q.most_rows is None)

    def reading_files(self) -> list[str]:
        """Run ids of the active queries that have told of a source for files."""
        return self._those(lambda q: q.active and q.reads_files)

    def stateful(self) -> list[str]:
        """Run ids of the queries that have told of state."""
        return self._those(lambda q: q.state is not None)

    def active(self) -> list[str]:
        """Run ids of the queries that have started and not terminated."""
        return self._those(lambda q: q.active)

    def outdated(self) -> list[str]:
        """Run ids of the active queries that have found no data since their sources told something,
        or since they started. No event brings what the sources tell of that; the query's last
        progress does.
        """
        return self._those(lambda q: q.active and q.idled)

    def _those(self, are: Callable[[TrackedQuery], bool]) -> list[str]:
        with self._lock:
            return [query.run_id for query in self._queries.values() if are(query)]

    def reported(self, run_id: str, progress: Mapping[str, Any]) -> None:
        """The last progress of a query that is `outdated`."""
        with self._lock:
            query = self._find(run_id)
            if query is not None and query.active and query.idled:
                query.report_by(progress)

    def completed_since(self, run_id: str, moment: float) -> bool:
        """Whether the query has completed a batch later than `moment`, seconds since the epoch."""
        with self._lock:
            query = self._find(run_id)
            return bool(query and (query.completed_ms or 0) > moment * 1000)

    @property
    def begun(self) -> bool:
        """Whether one has ever started."""
        with self._lock:
            return bool(self._queries)

    def listed(self, triggers: Mapping[str, int | None]) -> list[Query]:
        """The queries as the agent reports them.

        Args:
            triggers: of each query with a trigger in progress, by run id, when that began (in
                milliseconds since the epoch; None if Spark does not tell).
        """
        now = int(self._clock() * 1000)
        with self._lock:
            return [self._listed(query, triggers, now) for query in self._queries.values()]

    def _listed(self, query: TrackedQuery, triggers: Mapping[str, int | None], now: int) -> Query:
        running = None
        if query.active and query.run_id in triggers:
            began = triggers[query.run_id]
            if began is None:
                began = query.next_trigger(query.interval_ms or self._interval_ms)
            running = max(0, now - began)
        interval = query.interval_ms or self._interval_ms
        unheard = now - query.heard_ms
        stale = query.active and query.lag.reads and unheard > max(LAG_KEPT_MS, 3 * interval)
        report, lag, known = query.report, query.lag, query.known
        return Query(
            name=query.label,
            active=query.active,
            interval_ms=query.interval_ms,
            running_ms=running,
            backlog_records=None if stale else query.backlog,
            files_waiting=query.files_waiting if query.active else None,
            error=query.error,
            behind_ms=None if stale else report.behind_ms,
            source_shards=report.shards,
            source_lost=report.lost,
            trigger=query.kind,
            watermark=query.watermark if query.active else None,
            doing=query.doing[:MOST_DOING] if query.active and query.doing else None,
            cold=query.active and self._history.is_cold(query.label),
            heard_at=query.heard_ms / 1000,
            state=known.completed(query.state) if query.state and known else query.state,
            stateless=known is not None and known.stateless and query.state is None,
            partitions_behind=None if stale else lag.partitions,
            lag_unknown=_unheard(unheard) if stale else lag.unknown,
            behind_at_least_ms=None if stale else lag.at_least_ms,
        )


def _unheard(milliseconds: int) -> str:
    return f"nothing was heard of the query for {milliseconds // 1000} s: does Kafka answer it?"
