"""Stops the program when somebody asks for it."""

import os
import threading
import time
from typing import Any

from . import drain
from .agent import Agent
from .log import say

CUT_WITHIN = 10.0
"""Seconds Spark is given to end in good order when the program does not end by itself."""
POLL = 0.05
REPOLL = 0.5


class Stopper:
    """Ends the driver on request, once and for all."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._lock = threading.Lock()
        self.requested = False
        self._graceful = True
        self._cut_now = threading.Event()
        self._ended = threading.Event()

    def request(self, graceful: bool, timeout: float) -> None:
        """Begin to stop; returns at once. Asking again does nothing, but that an abrupt request
        overrides a graceful one.

        Args:
            timeout: seconds after which what has not ended is ended abruptly.
        """
        with self._lock:
            if self._ended.is_set() or (self.requested and (graceful or not self._graceful)):
                return
            first, self.requested, self._graceful = not self.requested, True, graceful
        say(f"stop requested, {f'graceful, within {timeout:g} s' if graceful else 'at once'}")
        if self._agent.phase != "ended":
            self._agent.phase = "stopping"
        if not graceful:
            self._cut_now.set()
        if first:
            deadline = time.monotonic() + timeout
            self._start(self._watch, deadline)
            if graceful:
                self._start(self._finish, deadline)

    def program_ended(self) -> None:
        """The program has ended: nothing is left to stop."""
        self._ended.set()
        self._cut_now.set()

    def _start(self, what: Any, deadline: float) -> None:
        threading.Thread(target=what, args=(deadline,), name="sparkscale-stop", daemon=True).start()

    def _watch(self, deadline: float) -> None:
        self._cut_now.wait(max(0.0, deadline - time.monotonic()))
        if self._ended.is_set():
            return
        if self._graceful:
            say("the program has not ended in time: ending it")
        cut = threading.Thread(target=_stop_spark, daemon=True)
        cut.start()
        cut.join(CUT_WITHIN)
        self._agent.phase = "ended"
        self._agent.rates.close()
        os._exit(0)

    def _finish(self, deadline: float) -> None:
        """Let what runs finish its batch and stop it, and whatever the program starts after it."""
        asked_at = time.time()
        while time.monotonic() < deadline and not self._ended.is_set():
            try:
                left = self._finish_queries(asked_at)
                _finish_dstreams(deadline)
            except Exception as error:
                left = 0
                if not self._ended.is_set():
                    say(f"cannot stop it in good order yet: {type(error).__name__}: {error}")
                    time.sleep(REPOLL)
            time.sleep(POLL if left else REPOLL)

    def _finish_queries(self, asked_at: float) -> int:
        """Stop each query between two batches; how many are in the middle of one."""
        busy = 0
        for manager in self._agent.structured.managers():
            for query in manager.active():
                run = query.runId().toString()
                if query.status().isTriggerActive() and not self._agent.queries.completed_since(
                    run, asked_at
                ):
                    busy += 1
                else:
                    query.stop()
        return busy


def _finish_dstreams(deadline: float) -> None:
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is not None and context._jsc is not None:
        drain.finish(context, deadline)


def _stop_spark() -> None:
    from pyspark import SparkContext

    try:
        if SparkContext._active_spark_context is not None:
            SparkContext._active_spark_context.stop()
    except Exception as error:
        say(f"Spark did not stop: {type(error).__name__}: {error}")
