"""Commits the positions of a DStream's batches as these complete, on a thread of its own.

When a batch has failed, or the streaming context has any other error, it stops the context: Spark
would go on with the next batches for ever, but nothing they do could be committed.
"""

import atexit
import logging
import queue
import threading
import time

from dagster_sparkscale.sources.kinesis.planner import Plan
from dagster_sparkscale.sources.kinesis.positions import Offset

from .commit_files import CommitFiles, StoreError, StoreTaken
from .commits import Commits, Patience, Planned
from .scheduler import Batches, Completed

log = logging.getLogger(__name__)

POLL_S = 0.5
"""How often to look whether the context has stopped or failed."""
LEAVE_S = 10.0
"""Given to what is left to be committed when the program ends."""


class Committer:
    """Safe for threads.

    Args:
        start: what is committed already.
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
        """Where the batch of `time_ms` begins; None if it is to have nothing: the stream has
        failed, as many batches as may be are not done yet, or it is too late for this one."""
        with self._lock:
            commits = self._commits
            crowded = commits.unfinished() >= self._at_most
            if crowded or commits.failure is not None or commits.is_past(time_ms):
                return None
            return commits.end

    def planned(self, time_ms: int, plan: Plan | None) -> bool:
        """The batch of `time_ms` will be run; with nothing to read, if there is no plan. False if
        it is too late for that: it must be empty."""
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
        """As `Commits.span_of`."""
        with self._lock:
            return self._commits.span_of(time_ms)

    def took(self) -> tuple[float, float] | None:
        """How long the last batch that had something took, and how much of the stream's time it
        covered, milliseconds; None if there is none that was not asked for before."""
        with self._lock:
            took, self._took = self._took, None
            return took

    def completed(self, batch: Completed) -> None:
        """To be told of every batch that was planned. Returns at once."""
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
        """Wait for something to do, and do it. Whether it was the last."""
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
        """Keep what is committed; why to give up, if that has not worked for too long."""
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
