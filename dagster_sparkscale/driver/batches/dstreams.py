"""What the one DStreams graph of an application does: batches, what waits.

Read when somebody asks, from `org.apache.spark.streaming.ui.StreamingJobProgressListener`, which
every StreamingContext keeps anyway: nothing of ours runs while batches do.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from dagster_sparkscale.driver.settings import RECEIVER, REPORTS
from dagster_sparkscale.driver.spark.features import BATCHES
from dagster_sparkscale.driver.spark.graph import active_graph
from dagster_sparkscale.driver.spark.jvm import Jvm
from dagster_sparkscale.driver.spark.private import PrivateSpark
from dagster_sparkscale.driver.wire import Batch, Query

from .history import LIMIT, History
from .queries import Completed
from .reports import MOST_INPUTS, NOTHING_TOLD, DoneBatch, Input, SourceReport, combine, read_report

QUERY = "dstream"
"""The name that the batches of a DStreams application go by; it has but one graph."""


class DStreams:
    """Reads the active StreamingContext, if the program has one. For one thread."""

    def __init__(
        self,
        jvm: Jvm,
        history: History,
        private: PrivateSpark,
        clock: Callable[[], float] = time.time,
        completed: Completed = lambda done: done.batch,
    ) -> None:
        self._jvm = jvm
        self._completed_batch = completed
        self._receivers: set[int] = set()
        """Stream ids that are known to be those of receivers."""
        self._private = private
        self._history = history
        self._clock = clock
        self._recorded: deque[int] = deque(maxlen=2 * LIMIT)
        self._completed = 0
        self._interval_ms: int | None = None
        self._heard_at: float | None = None
        self._seen: Any = None
        self._report = NOTHING_TOLD

    def observe(self) -> Query | None:
        """The graph's state; None if the program never started one.

        Batches completed since the last call go into the history.
        """
        streaming = active_graph(self._jvm, self._private)
        if streaming is not None:
            unknown = Query(QUERY, active=True)
            return self._private.use(BATCHES, lambda: self._observe(streaming), unknown)
        if self._seen is None:
            return None
        self._collect(self._seen)  # what completed while it was being stopped
        return ended(self._state(active=False, report=self._report))

    def _observe(self, streaming: Any) -> Query:
        listener = streaming.progressListener()
        if self._seen is None or not listener.equals(self._seen):
            self._seen, self._completed = listener, 0
            self._interval_ms = int(listener.batchDuration())
            self._receivers = set()
            self._heard_at = self._clock()
        self._report = self._reported()
        self._collect(listener)
        running = self._jvm.read(listener.runningBatches())
        waiting = self._jvm.read(listener.waitingBatches())
        begun = [b["processingStartTime"] for b in running if b["processingStartTime"]]
        return replace(
            self._state(active=True, report=self._report),
            running_ms=max(0, int(self._clock() * 1000) - min(begun)) if begun else None,
            pending_batches=len(waiting) + len(running),
            backlog_records=sum(records_of(batch) for batch in waiting),
        )

    def _state(self, active: bool, report: SourceReport) -> Query:
        return Query(
            name=QUERY,
            active=active,
            interval_ms=self._interval_ms,
            behind_ms=report.behind_ms,
            source_shards=report.shards,
            source_lost=report.lost,
            heard_at=self._heard_at,
            cold=active and self._history.is_cold(QUERY),
        )

    def _reported(self) -> SourceReport:
        """What the sources tell of themselves, in system properties. They are picked out over
        there: the others hold all settings, secrets among them."""
        util, lang = self._jvm.view.java.util, self._jvm.view.java.lang
        properties = util.TreeMap(lang.System.getProperties())
        told = self._jvm.read(properties.subMap(REPORTS, REPORTS + "\uffff"))
        return combine(read_report(text) for text in told.values())

    def _collect(self, listener: Any) -> None:
        completed = int(listener.numTotalCompletedBatches())
        new = min(completed - self._completed, LIMIT)
        if new <= 0:
            return
        self._completed = completed
        # One more may complete between the two calls, so a few older ones are read too.
        read = self._jvm.read(listener.retainedCompletedBatches().takeRight(new + 2))
        known = [(batch, data) for data in read if (batch := batch_of(data)) is not None]
        unseen = [each for each in known if each[0].batch_id not in self._recorded]
        for batch, data in unseen:
            assert batch.batch_id is not None and self._interval_ms is not None
            self._recorded.append(batch.batch_id)
            self._heard_at = max(self._heard_at or 0.0, batch.completed_at)
            # The sources tell how far behind they are now, not how far they were before.
            behind = self._report.behind_ms if batch is unseen[-1][0] else None
            batch = replace(batch, behind_ms=behind)
            inputs = inputs_of(data, lambda stream: self._is_receiver(listener, stream))
            done = DoneBatch(batch, self._interval_ms, inputs, queues=True)
            self._history.add(self._completed_batch(done))

    def _is_receiver(self, listener: Any, stream: int) -> bool:
        if stream not in self._receivers and listener.receiverInfo(stream).isDefined():
            self._receivers.add(stream)
        return stream in self._receivers


def ended(query: Query) -> Query:
    """A graph that is not active any more. What is lost stays lost."""
    return Query(
        query.name, active=False, interval_ms=query.interval_ms, source_lost=query.source_lost
    )


def records_of(data: Mapping[str, Any]) -> int:
    """Records of a batch, from the JSON of `org.apache.spark.streaming.ui.BatchUIData`."""
    return sum(info["numRecords"] for info in data["streamIdToInputInfo"].values())


def inputs_of(data: Mapping[str, Any], is_receiver: Callable[[int], bool]) -> tuple[Input, ...]:
    """What each source gave a batch, from the JSON of `org.apache.spark.streaming.ui.BatchUIData`.

    A source of ours says in its input's metadata what it is called and the limit it kept to.

    Args:
        is_receiver: whether the input of that stream id comes from a receiver.
    """
    told = list(data["streamIdToInputInfo"].items())[:MOST_INPUTS]
    inputs = []
    for stream, info in told:
        records, metadata = int(info["numRecords"]), info.get("metadata") or {}
        if is_receiver(int(stream)):
            inputs.append(Input(f"{RECEIVER}{stream}", records, receiver=True))
        elif isinstance(source := metadata.get("source"), str) and "limit" in metadata:
            limit = metadata["limit"]
            heeded = limit if type(limit) is int and limit > 0 else None
            inputs.append(Input(source, records, heeded, tells=True))
        else:
            inputs.append(Input(None, records))
    return tuple(inputs)


def batch_of(data: Mapping[str, Any]) -> Batch | None:
    """A completed batch, from the JSON of `org.apache.spark.streaming.ui.BatchUIData`.

    None: the machine's clock, which Spark goes by, was set back in it, and how long it took is not
    known; unless it failed, for that it did is.
    """
    submitted, start, end = (
        data[name] for name in ("submissionTime", "processingStartTime", "processingEndTime")
    )
    failed = any(op.get("failureReason") for op in data["outputOperations"].values())
    if end < start and not failed:
        return None
    return Batch(
        query=QUERY,
        completed_at=end / 1000,
        processing_ms=max(0, end - start),
        scheduling_ms=start - submitted if start >= submitted else None,
        records=records_of(data),
        failed=failed,
        batch_id=data["batchTime"]["millis"],
    )
