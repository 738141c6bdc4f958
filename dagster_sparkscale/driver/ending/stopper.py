"""Stops the program when somebody asks for it, and leaves word of how it ended."""

import functools
import itertools
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from dagster_sparkscale.driver.agent import Agent
from dagster_sparkscale.driver.batches.dstreams import QUERY
from dagster_sparkscale.driver.log import say

from . import drain
from .between_batches import Ending, Interruption
from .end_report import NOT_CLEAN, Stopped, StoppedQuery

CUT_WITHIN = 10.0
"""Seconds Spark is given to end in good order when the program does not end by itself."""
POLL = 0.05
REPOLL = 0.5


class Stopper:
    """Ends the driver on request, once and for all.

    One class, though long: three threads settle between them, under one lock, who ends the driver.

    Args:
        report: called with how it has ended.
        last: called with the exit code, before a process that is cut ends.
    """

    def __init__(
        self,
        agent: Agent,
        report: Callable[[Stopped], None],
        last: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._agent = agent
        self._report, self._last = report, last
        self._lock = threading.Lock()
        self.requested = False
        self._sigterm = False
        self._graceful = True
        self._deadline = math.inf
        self._woken = threading.Event()
        """Something has changed that the watching thread waits for."""
        self._program_ended = threading.Event()
        self._idle = threading.Event()
        """Nothing is left of what ran when a graceful stop was asked for."""
        self._finished = threading.Event()
        """Set once the program has ended too."""
        self._claimed = False
        """Whether it is settled who ends the driver: its main thread, or the one that cuts."""
        self._endings: dict[str, Ending | Interruption] = {}
        """The end of each query that was active since, by run id."""
        self._outcomes: dict[str, StoppedQuery] = {}
        """How those ended that have, by run id; a DStreams graph, by its name."""

    def request(self, graceful: bool, timeout: float, sigterm: bool = False) -> None:
        """Begin to stop; returns at once. Asking again can only bring the end forward, and what is
        graceful to be abrupt.

        Args:
            timeout: seconds after which what has not ended is ended abruptly.
            sigterm: whether it is a SIGTERM that asks.
        """
        deadline = time.monotonic() + (timeout if graceful else 0.0)
        with self._lock:
            if self._claimed or deadline >= self._deadline:
                return
            first, self.requested, self._deadline = not self.requested, True, deadline
            self._sigterm = sigterm if first else self._sigterm
            self._graceful = self._graceful and graceful
        by = "by SIGTERM, " if sigterm else ""
        say(f"stop requested, {by}{f'graceful, within {timeout:g} s' if graceful else 'at once'}")
        self._agent.admission.phase = "stopping"
        self._woken.set()
        if first:
            self._start(self._watch)
            if graceful:
                self._start(self._finish)

    def heed_sigterm(self, seconds: float) -> None:
        """Take a SIGTERM for a request to stop gracefully within `seconds`, which is what pods and
        batch systems mean by it, and another one for a request to stop at once.

        For the main thread. A program with a handler of its own has that instead.
        """
        signals = itertools.count(1)

        def handle(_number: int, _frame: Any) -> None:
            # While Spark is being started there is nothing to finish.
            graceful = next(signals) == 1 and self._agent.admission.phase != "starting"
            # A handler runs between any two steps of the main thread, which may hold a lock.
            asked = (graceful, seconds, True)
            threading.Thread(target=self.request, args=asked, daemon=True).start()

        signal.signal(signal.SIGTERM, handle)

    def hold_back_the_program(self) -> None:
        """Have the program, once a graceful stop is under way, end Spark only when all has been
        finished: the first of several queries to end is what many programs wait for."""
        from pyspark import SparkContext

        original = SparkContext.stop

        @functools.wraps(original)
        def stop(context: Any) -> None:
            # A batch that ends Spark itself must not wait for its own end.
            if threading.current_thread() is threading.main_thread():
                self.let_finish()
            original(context)

        SparkContext.stop = stop

    def let_finish(self) -> None:
        """Return when nothing is left that a graceful stop waits for, if one is under way."""
        while self.requested and not self._claimed and not self._idle.wait(POLL):
            pass

    def program_ended(self, code: int) -> int:
        """The program has ended, with this exit code; the exit code of the driver.

        When a stop was requested, what the program left running is finished before this returns.
        """
        with self._lock:
            if not self.requested:
                self._claimed = True
                return code
        self._program_ended.set()
        self._finished.wait()
        if not self._claim():
            threading.Event().wait()  # the process is being ended
        self._woken.set()
        # Being stopped may have made the program raise: that is no failure.
        return 0 if self._report_how(ended_itself=True) else NOT_CLEAN

    def _start(self, what: Callable[[], None]) -> None:
        threading.Thread(target=what, name="sparkscale-stop", daemon=True).start()

    def _claim(self) -> bool:
        with self._lock:
            claimed, self._claimed = self._claimed, True
            return not claimed

    def _watch(self) -> None:
        while not self._claimed and (left := self._deadline - time.monotonic()) > 0:
            self._woken.wait(left)
            self._woken.clear()
        if not self._claim():
            return
        ended_itself = self._program_ended.is_set()
        if self._graceful:
            say("the program has not ended in time: ending it")
        active = [query.name for query in self._agent.status(batches=False).queries if query.active]
        cut = threading.Thread(target=self._cut, daemon=True)
        cut.start()
        cut.join(CUT_WITHIN)
        self._report_how(ended_itself, active)
        self._agent.admission.phase = "ended"
        self._last(NOT_CLEAN)
        self._agent.close()
        os._exit(NOT_CLEAN)

    def _cut(self) -> None:
        try:
            self._find_queries(time.time())
        except Exception as error:
            say(f"what is being cut is not known: {type(error).__name__}: {error}")
        _stop_spark()
        for run, ending in list(self._endings.items()):
            if run not in self._outcomes:
                self._outcomes[run] = ending.outcome()

    def _finish(self) -> None:
        """Let what runs finish its batch and stop it, and whatever the program starts after it."""
        asked_at = time.time()
        while not self._claimed:
            ended = self._program_ended.is_set()  # nothing is started after that
            left = 0
            try:
                # In this order: what is in the middle of something may start a query at its end.
                left = int(self._agent.busy)
                left += self._finish_queries(asked_at)
                self._finish_dstreams()
            except Exception as error:
                if not ended:
                    say(f"cannot stop it in good order yet: {type(error).__name__}: {error}")
            if left:
                self._idle.clear()
                time.sleep(POLL)
                continue
            self._idle.set()
            if ended:
                break
            self._program_ended.wait(REPOLL)
        self._finished.set()

    def _finish_queries(self, asked_at: float) -> int:
        """Have each query end between two batches; how many have not ended yet."""
        self._find_queries(asked_at)
        left = 0
        for run, ending in self._endings.items():
            if run in self._outcomes:
                continue
            if ending.step():
                self._outcomes[run] = ending.outcome()
            else:
                left += 1
        return left

    def _find_queries(self, asked_at: float) -> None:
        from pyspark import SparkContext

        context = SparkContext._active_spark_context
        for manager in self._agent.structured.managers():
            for query in manager.active():
                run = str(query.runId().toString())
                if run not in self._endings:
                    completed = functools.partial(
                        self._agent.queries.completed_since, run, asked_at
                    )
                    try:
                        self._endings[run] = Ending(context, query, completed)
                    except Exception as error:  # a Spark that lacks what it needs
                        say(f"a query is interrupted: {type(error).__name__}: {error}")
                        self._endings[run] = Interruption(query)

    def _finish_dstreams(self) -> None:
        from pyspark import SparkContext

        context = SparkContext._active_spark_context
        if context is not None and context._jsc is not None:
            outcome = drain.finish(context, self._deadline)
            if outcome is not None:
                self._outcomes[QUERY] = outcome

    def _report_how(self, ended_itself: bool, active: Sequence[str] = ()) -> bool:
        """Report how it ended; whether it was a clean end.

        Args:
            active: the names of what was active when it was cut.
        """
        outcomes = list(self._outcomes.values())
        known = {outcome.name for outcome in outcomes}
        # A graph of DStreams that was cut has said nothing; of a query Spark may not have answered.
        for name in dict.fromkeys([*active, *(each.name for each in self._endings.values())]):
            if name not in known:
                drained = False if name == QUERY else None
                last = self._agent.history.last_done(name)
                outcomes.append(StoppedQuery(name, drained, last))
        stopped = Stopped(time.time(), self._graceful, ended_itself, tuple(outcomes), self._sigterm)
        self._report(stopped)
        return stopped.clean


def _stop_spark() -> None:
    from pyspark import SparkContext

    try:
        if SparkContext._active_spark_context is not None:
            SparkContext._active_spark_context.stop()
    except Exception as error:
        say(f"Spark did not stop: {type(error).__name__}: {error}")
