"""A bounded history of batches, for several threads. It needs no Spark and no clock."""

import threading
from collections import deque
from dataclasses import replace

from dagster_sparkscale.driver.wire import Batch, Totals

LIMIT = 1000
"""Batches kept; as many as Spark's own UI keeps (spark.streaming.ui.retainedBatches)."""
TOTALS = 100
"""Queries whose batches are added up: programs may start new ones for ever."""
WORKED_MS = 1000
"""A batch that took so long has worked, also where its source does not count records."""


def has_worked(batch: Batch) -> bool:
    """Whether a batch had anything to do, as far as that can be told."""
    return bool(batch.records) or batch.processing_ms >= WORKED_MS


class History:
    """The latest batches of all queries, each with a sequence number. Safe for threads."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._lock = threading.Lock()
        self._batches: deque[Batch] = deque(maxlen=limit)
        self._last_seq = 0
        self._dropped_at: float | None = None
        self._warm: dict[str, None] = {}
        """Queries of which a batch has worked, the latest last."""
        self._totals: dict[str, Totals] = {}
        """What batches came to, by query, the latest last."""

    def add(self, batch: Batch) -> int:
        """Record a batch; returns its sequence number, 1 for the first ever."""
        with self._lock:
            if has_worked(batch):
                batch = replace(batch, cold=batch.query not in self._warm)
                self._warm.pop(batch.query, None)
                self._warm[batch.query] = None
                if len(self._warm) > LIMIT:  # names are made up by programs
                    del self._warm[next(iter(self._warm))]
            if len(self._batches) == self._batches.maxlen:
                self._dropped_at = self._batches[0].completed_at
            self._batches.append(batch)
            self._add_up(batch)
            self._last_seq += 1
            return self._last_seq

    def _add_up(self, batch: Batch) -> None:
        if not (batch.failed or batch.records or batch.processing_ms):
            return  # triggers without data
        so_far = self._totals.pop(batch.query, None) or Totals(batch.query, 0, 0, 0, 0)
        self._totals[batch.query] = _with(so_far, batch)
        if len(self._totals) > TOTALS:
            del self._totals[next(iter(self._totals))]

    def totals(self) -> tuple[Totals, ...]:
        """What the batches with work of each query came to; of the latest `TOTALS` queries."""
        with self._lock:
            return tuple(self._totals.values())

    def would_be_cold(self, batch: Batch) -> bool:
        """Whether `add` would record it as the first batch with work of its query."""
        return has_worked(batch) and self.is_cold(batch.query)

    def is_cold(self, query: str) -> bool:
        """Whether no batch of that query has worked yet."""
        with self._lock:
            return query not in self._warm

    def last_done(self, query: str) -> int | None:
        """The id of the last batch of that query that completed, of those that are kept; None: none
        did."""
        with self._lock:
            done = (b for b in reversed(self._batches) if b.query == query and not b.failed)
            return next((b.batch_id for b in done if b.batch_id is not None), None)

    @property
    def dropped_at(self) -> float | None:
        """When the last batch completed that is not kept any more; None: all are."""
        with self._lock:
            return self._dropped_at

    def read(
        self, since: int | None = None, after: float | None = None, leading: bool = False
    ) -> tuple[list[Batch], int]:
        """What is kept, oldest first, and the sequence number of the last batch ever recorded.

        Args:
            since: only batches with a higher sequence number.
            after: only batches completed later than this, seconds since the epoch.
            leading: with the last batch of each query before those: since when that began, the
                next one has gathered its records.
        """
        with self._lock:
            batches, last = list(self._batches), self._last_seq
        if since is not None:
            newer = last - since
            batches = batches[max(0, len(batches) - newer) :]
        if after is not None:
            earlier = [batch for batch in batches if batch.completed_at <= after]
            lead = (
                {id(batch) for batch in {b.query: b for b in earlier}.values()} if leading else ()
            )
            batches = [b for b in batches if b.completed_at > after or id(b) in lead]
        return batches, last


def _with(totals: Totals, batch: Batch) -> Totals:
    if batch.failed:
        return replace(totals, failed=totals.failed + 1)
    known = totals.records is not None and batch.records is not None
    return replace(
        totals,
        completed=totals.completed + 1,
        processing_ms=totals.processing_ms + batch.processing_ms,
        records=(totals.records or 0) + (batch.records or 0) if known else None,
    )
