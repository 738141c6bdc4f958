"""Ends a Structured Streaming query between two batches, which Spark's own `stop` does not.

`StreamingQuery.stop` interrupts whatever the query is doing, and a query that is never idle is
doing something: it would be cut in the next batch, though it was asked to stop after this one.
Setting its state early does not help: a batch that has been planned interrupts itself when the
query is not active any more (`MicroBatchExecution.runBatch`, Spark 3.5 to 4.3).

But a query takes its `awaitProgressLock` in three places: to plan a batch, to commit it, and to
tell others that the trigger is done. Whoever holds that lock has the query wait at the next of
them, and the third lies between two batches. There it is told that it is not active any more, and
ends by itself, with nothing interrupted.
"""

import time
from collections.abc import Callable
from typing import Any

from dagster_sparkscale.driver.spark.private import of_streaming

from .end_report import StoppedQuery

_ASYNCHRONOUS = "AsyncProgressTracking"
"""Begins the name of the execution whose logs another thread writes, and not for each batch."""
POLL = 0.005
TURN_MS = 50
"""Milliseconds that the lock is waited for, once the query was let pass."""


class Ending:
    """The end of one query. `step` is for one thread: a lock is held by a thread, and py4j keeps a
    thread of the JVM for each of ours (unless PYSPARK_PIN_THREAD is off).

    Args:
        context: the pyspark SparkContext.
        query: the JVM's StreamingQuery.
        completed: whether it has completed a batch since it was asked to end; heeded where it
            can't be made to wait.
    """

    def __init__(self, context: Any, query: Any, completed: Callable[[], bool]) -> None:
        from py4j.clientserver import ClientServer

        self._query = query
        self._execution = query.streamingQuery()
        self._thread = self._execution.queryExecutionThread()
        self.name = str(self._execution.name() or self._execution.id().toString())
        self.trigger = trigger = str(self._execution.trigger().getClass().getSimpleName())
        self._has_batches = trigger != "ContinuousTrigger"
        kind = str(self._execution.getClass().getSimpleName())
        self.logs_late = trigger == "RealTimeTrigger" or kind.startswith(_ASYNCHRONOUS)
        """Whether a batch is in the offset log only once it has ended, or still later: then both
        logs end with the same batch while another is in progress."""
        self.pinned = isinstance(context._gateway, ClientServer)
        """Whether a thread of the JVM is kept for each of ours, which can hold a lock."""
        self._completed = completed
        self._lock = self._execution.awaitProgressLock()
        self._milliseconds = context._jvm.java.util.concurrent.TimeUnit.MILLISECONDS
        self._state = self._execution.state()
        self._initializing, self._active, self._terminated = (
            getattr(of_streaming(context._jvm, "runtime", f"{name}$"), "MODULE$")
            for name in ("INITIALIZING", "ACTIVE", "TERMINATED")
        )
        self._holds = False
        self.deactivated = False
        """Whether it was told, between two batches, that it is not active any more."""

    def step(self) -> bool:
        """Do what can be done now, and whether it has ended. To be called until it has."""
        if not self._thread.isAlive():
            return True
        if not self._has_batches:
            self._query.stop()
        elif self.deactivated:
            # It ends by itself, unless it sleeps until the next trigger.
            if self._sleeps() and not self._trigger_active():
                self._query.stop()
        elif not self.pinned:
            if self._completed() or not self._trigger_active():
                self._query.stop()
        elif self._state.compareAndSet(self._initializing, self._terminated):
            self.deactivated = True
        elif self._hold():
            if not self._trigger_active():
                self._deactivate()
            elif self._lock.hasQueuedThreads():
                self._let_pass()
        return not self._thread.isAlive()

    def give_up(self) -> bool:
        """Let it go on. Returns whether it does: not where it was told already that it has ended.
        For the thread of `step`."""
        if self.deactivated or not self._thread.isAlive():
            return False
        if self._holds:
            self._release()
        return True

    def _hold(self) -> bool:
        self._holds = self._holds or self._lock.tryLock()
        return self._holds

    def _release(self) -> None:
        self._lock.unlock()
        self._holds = False

    def _let_pass(self) -> None:
        """Let the query plan or commit its batch, and be the next in the queue. The lock is fair,
        so the query does not pass another of its places by then."""
        self._release()
        self._holds = self._lock.tryLock(TURN_MS, self._milliseconds)

    def _deactivate(self) -> None:
        self._state.set(self._terminated)
        while self._thread.isAlive():
            # In this order: what waits now, and has no trigger after that, begins none any more.
            waits = self._sleeps() or self._lock.hasQueuedThread(self._thread)
            if self._trigger_active():
                # It had looked just before it was told, and would interrupt the batch that it
                # plans next. It waits for the lock to do so.
                self._state.set(self._active)
                return
            if waits:
                break
            time.sleep(POLL)
        self.deactivated = True
        self._release()

    def _sleeps(self) -> bool:
        return str(self._thread.getState().toString()) == "TIMED_WAITING"

    def _trigger_active(self) -> bool:
        return bool(self._execution.status().isTriggerActive())

    def outcome(self, patience_ms: int = 1000) -> StoppedQuery:
        """How it ended. Asks the checkpoint, which knows better than whoever ended it.

        Args:
            patience_ms: milliseconds to wait for its end, if it was cut.
        """
        self._thread.join(patience_ms)
        try:
            planned = _latest(self._execution.offsetLog())
            done = _latest(self._execution.commitLog())
        except Exception:
            planned = done = None
        if self.logs_late:
            return self._outcome_of_late_logs()
        if planned is None:  # before its first batch, or its checkpoint was a temporary one
            return StoppedQuery(self.name, self.deactivated)
        return StoppedQuery(self.name, planned == done, done)

    def _outcome_of_late_logs(self) -> StoppedQuery:
        try:
            done, completed = _latest_on_disk(self._execution.commitLog()), self._last_completed()
        except Exception:
            return StoppedQuery(self.name, None if self.deactivated else False)
        repeats = self.deactivated and unwritten(done, completed)
        return StoppedQuery(self.name, self.deactivated and not repeats, done, repeats)

    def _last_completed(self) -> int | None:
        """The last batch that the query has completed, by its own progress; None: it tells none."""
        for progress in reversed(list(self._query.recentProgress())):
            if progress.durationMs().containsKey("addBatch"):
                return int(progress.batchId())
        return None


class Interruption:
    """The end of a query by Spark's own means, where there are no better ones."""

    def __init__(self, query: Any) -> None:
        self._query = query
        self.name = str(query.name() or query.id().toString())

    def step(self) -> bool:
        self._query.stop()
        return True

    def outcome(self) -> StoppedQuery:
        return StoppedQuery(self.name)


def unwritten(done: int | None, completed: int | None) -> bool:
    """Whether a query has completed batches that its checkpoint does not have as done, so that the
    next start does them again. Pure."""
    return completed is not None and (done is None or done < completed)


def _latest(log: Any) -> int | None:
    found = log.getLatestBatchId()
    return int(found.get()) if found.isDefined() else None


def _latest_on_disk(log: Any) -> int | None:
    """The last batch in a log, without those that an asynchronous one keeps in memory alone."""
    return max(map(int, log.listBatchesOnDisk()), default=None)
