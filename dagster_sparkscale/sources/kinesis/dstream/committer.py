"""Commits the positions of a DStream's batches as these complete, on a thread of its own.

When a batch has failed, or the streaming context has any other error, it stops the context: Spark
would go on with the next batches for ever, but nothing they do could be committed.
"""

import atexit
import logging
import queue
import threading
import time

from dagster_sparkscale.sources.kinesis.planner import BatchPlan
from dagster_sparkscale.sources.kinesis.positions import Offset

from .commit_files import CommitFiles, StoreError, StoreTaken
from .commits import Commits, Patience, Planned
from .scheduler import Batches, Completed

log = logging.getLogger(__name__)

POLL_S = 0.5
"""Seconds between two checks whether the context has stopped or failed."""
LEAVE_S = 10.0
"""Seconds for the last commits when the program ends."""


class Committer:
    """Commits positions on a thread of its own. Safe for threads.

    Args:
        start: the positions that are committed already.
        at_most: how many batches with something to read may be planned and not done.
    """

    def __init__(
        self, batches: Batches, store: CommitFiles | None, start: Offset, at_most: int
    ) -> None:
        self._batches = batches
        self._store = store
        self._stream = start.stream
        self._commits = Commits(start)
        self._at_most = at_most
        self._saved = start
        self._took: tuple[float, float] | None = None
        self._patience = Patience()
        self._lock = threading.Lock()
        self._events: queue.SimpleQueue[Completed | None] = queue.SimpleQueue()
        self._leaving = False
        self._thread: threading.Thread | None = None

    @property
    def committed(self) -> Offset:
        with self._lock:
            return self._saved

    def next_start(self, time_ms: int) -> Offset | None:
        """The begin of the batch of `time_ms`; None if the batch must be empty: the stream has
        failed, too many batches are not done, or this one comes too late."""
        with self._lock:
            commits = self._commits
            crowded = commits.unfinished() >= self._at_most
            if crowded or commits.failure is not None or commits.is_past(time_ms):
                return None
            return commits.end

    def planned(self, time_ms: int, plan: BatchPlan | None) -> bool:
        """Note that the batch of `time_ms` will run with that plan, or with nothing to read.
        Returns False if it comes too late and must be empty."""
        with self._lock:
            if self._commits.is_past(time_ms):
                return False
            if plan is None:
                batch = Planned(time_ms, self._commits.end, empty=True)
            else:
                batch = Planned(time_ms, plan.end, plan.covered_ms, empty=not plan.ranges)
            self._commits.planned(batch)
            return True

    def span_of(self, time_ms: int) -> tuple[Offset, Offset] | None:
        """The begin and the end of an open batch, by `Commits.span_of`."""
        with self._lock:
            return self._commits.span_of(time_ms)

    def took(self) -> tuple[float, float] | None:
        """The duration of the last batch that had something to read, and the stream's time that it
        covered, in milliseconds. Each is returned once; None: no new one."""
        with self._lock:
            took, self._took = self._took, None
            return took

    def completed(self, batch: Completed) -> None:
        """Take note of a planned batch that is completed. Returns at once."""
        self._events.put(batch)

    def start(self) -> None:
        """Begin to commit, if that has not begun."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, name=f"kinesis-commits-{self._stream}", daemon=True
            )
            self._thread.start()
            atexit.register(self._leave, self._thread)

    def _leave(self, thread: threading.Thread) -> None:
        # A program may end as soon as its context has stopped: let the last batch be committed.
        self._leaving = True
        self._events.put(None)
        thread.join(LEAVE_S)

    def _run(self) -> None:
        try:
            while not self._turn():
                pass
            self._batches.forget(self._stream)
        except Exception as error:
            if self._leaving:
                return
            log.exception("%s: positions can no longer be committed", self._stream)
            self._give_up(f"positions of {self._stream} can no longer be committed: {error}")

    def _turn(self) -> bool:
        """Wait for something to do, and do it. Returns whether it was the last."""
        before = self._batches.look()
        event = self._next(0.0 if before.stopped or self._leaving else POLL_S)
        last = (before.stopped or self._leaving) and event is None and self._events.empty()
        while event is not None:
            self._take(event)
            event = self._next(0.0)
        if (error := self._save()) is None:
            error = self._commits.failure or self._batches.look().error
        if error is not None:
            self._give_up(error)
            return True
        return last

    def _next(self, seconds: float) -> Completed | None:
        try:
            return self._events.get(seconds > 0, seconds)
        except queue.Empty:
            return None

    def _take(self, batch: Completed) -> None:
        pending = self._batches.pending()
        # A batch whose jobs could not be made is known by this alone.
        error = self._batches.look().error
        with self._lock:
            if batch.failure is not None:
                moment = time.strftime("%H:%M:%S", time.localtime(batch.time_ms / 1000))
                self._commits.failed(f"the batch of {moment} has failed: {batch.failure}")
            elif error is not None:
                self._commits.failed(error)
            done = self._commits.succeeded(batch.time_ms, pending)
            covered = sum(each.covered_ms for each in done)
            if covered > 0:
                self._took = batch.processing_ms, covered

    def _save(self) -> str | None:
        """Save the committed positions; returns why to give up, if that has failed for too long."""
        with self._lock:
            offset = self._commits.committed
        if offset == self._saved:
            return None
        try:
            if self._store is not None:
                self._store.save(offset)
        except StoreError as error:
            if isinstance(error, StoreTaken) or self._patience.is_over(time.monotonic()):
                return str(error)
            log.warning("%s; trying again", error)
            return None
        self._patience.worked()
        with self._lock:
            self._saved = offset
        return None

    def _give_up(self, why: str) -> None:
        with self._lock:
            self._commits.failed(why)
        log.error(
            "%s: %s. Nothing more is committed, so the streaming context is stopped; the next "
            "start goes on from what was committed last, and repeats what came after it",
            *(self._stream, why),
        )
        if self._batches.look().error is None:
            self._batches.fail(f"{self._stream}: {why}")
        self._batches.stop()
        self._batches.forget(self._stream)
