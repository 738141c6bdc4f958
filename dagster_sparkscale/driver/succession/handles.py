"""Has PySpark's handles of queries pass over an end that is the driver's own: `StreamingQuery` and
`StreamingQueryManager` as the program has them, and its Python listeners.

A handle asks the JVM's query of the newest run. While there is none, the query counts as active.
"""

import functools
import time
from collections.abc import Callable
from typing import Any

from dagster_sparkscale.driver.log import say

from .passages import Passage, Passages, Phase

_RUN = "_sparkscale_run"
"""Attribute of a handle: the id of the run that it was made for."""
_JSQ = "_jsq"
SLICE = 0.5
"""Seconds for which the JVM is waited for at a time: what it is asked to wait for may be over
without its knowing."""
_SETTLED: tuple[Phase, ...] = ("between", "succeeded", "over")
"""The phases in which it is known whose end an end was."""
_STAYS = ("succeeded", "over")
"""The phases in which what a handle asks of the JVM is of the run that it has for good."""
VERDICT = 5.0
"""Seconds for which Spark's bus of events waits to learn whose end an end was."""


def install(passages: Passages) -> None:
    """Patch PySpark's classes, once for a process."""
    from pyspark.sql.streaming import listener, query

    _patch_query(query.StreamingQuery, passages)
    _patch_manager(query.StreamingQueryManager, query.StreamingQuery, passages)
    _patch_listener(listener.JStreamingQueryListener, passages)


class _Current:
    """The JVM's query behind a handle: that of the newest run."""

    def __init__(self, passages: Passages) -> None:
        self._passages = passages

    def __get__(self, handle: Any, owner: Any = None) -> Any:
        if handle is None:
            return self
        passage = self._passage(handle)
        if passage is None:
            return handle.__dict__[_JSQ]
        # In this order: it is forgotten once there is a successor, at any moment.
        last = passage.handle
        return last if passage.successor is None else passage.successor

    def __set__(self, handle: Any, jsq: Any) -> None:
        handle.__dict__[_JSQ] = jsq

    def _passage(self, handle: Any) -> Passage | None:
        return passage_of(self._passages, handle)


def passage_of(passages: Passages, handle: Any) -> Passage | None:
    """The newest passage of the query behind a handle; None: it was never ended by the driver."""
    if not passages:
        return None
    if _RUN not in handle.__dict__:
        handle.__dict__[_RUN] = str(handle.__dict__[_JSQ].runId().toString())
    return passages.latest(handle.__dict__[_RUN])


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _patch_query(kind: Any, passages: Passages) -> None:
    def of(handle: Any) -> Passage | None:
        return passage_of(passages, handle)

    _patch_waits(kind, passages, of)  # first: these ask what Spark itself says of a query
    _patch_stop(kind, passages, of)
    _patch_answers(kind, passages, of)
    kind._jsq = _Current(passages)


def _patch_waits(kind: Any, passages: Passages, of: Callable[[Any], Passage | None]) -> None:
    """What waits for a query waits for the end of its passage too."""
    is_active, awaits = kind.isActive, kind.awaitTermination
    all_available = kind.processAllAvailable

    @functools.wraps(awaits)
    def awaitTermination(self: Any, timeout: Any = None) -> Any:
        if timeout is not None and (not isinstance(timeout, (int, float)) or timeout < 0):
            return awaits(self, timeout)  # which refuses it
        deadline, left = None if timeout is None else time.monotonic() + timeout, timeout
        while True:
            passage = of(self)
            phase = None if passage is None else passage.phase
            if passage is not None and phase == "between":
                if not passages.wait(passage, ("succeeded", "over"), _left(deadline)):
                    return False
                left = _left(deadline)
                continue
            if passage is not None and passage.error is not None:
                raise _error(passage.error)
            # PySpark refuses to wait for no time at all, and the JVM for less than a millisecond.
            came = awaits(self, left if left is None or left == timeout else max(0.001, left))
            after = of(self)
            if came is False or after is None or (after is passage and phase in _STAYS):
                return came
            # The end may be ours.
            if not passages.wait(after, _SETTLED, _left(deadline)):
                return False
            left = _left(deadline)

    @functools.wraps(all_available)
    def processAllAvailable(self: Any) -> None:
        while True:
            passage = of(self)
            phase = None if passage is None else passage.phase
            if passage is not None and phase == "between":
                passages.wait(passage, ("succeeded", "over"), None)
                continue
            all_available(self)
            after = of(self)
            if after is None or (after is passage and phase in _STAYS):
                return
            if after.phase == "ending" and is_active.fget(self):
                return
            passages.wait(after, _SETTLED, None)  # it has ended, with more there perhaps

    kind.awaitTermination, kind.processAllAvailable = awaitTermination, processAllAvailable


def _patch_stop(kind: Any, passages: Passages, of: Callable[[Any], Passage | None]) -> None:
    """A query that the program stops is not started again."""
    stops = kind.stop

    @functools.wraps(stops)
    def stop(self: Any) -> None:
        while True:
            passage = of(self)
            if passage is not None and passage.phase in ("ending", "between"):
                passages.want_stop(passage)
                if passage.phase == "ending":
                    stops(self)
                passages.wait(passage, ("succeeded", "over"), None)
            stops(self)
            # The driver may have asked it to end in the same moment, and taken the end for its own.
            if of(self) is passage:
                return

    kind.stop = stop


def _patch_answers(kind: Any, passages: Passages, of: Callable[[Any], Passage | None]) -> None:
    """What tells how a query is tells of the newest run."""
    is_active, exception, progress = kind.isActive, kind.exception, kind.lastProgress

    def isActive(self: Any) -> bool:
        while True:
            passage = of(self)
            phase = None if passage is None else passage.phase
            if phase == "between" or is_active.fget(self):
                return True
            after = of(self)
            if after is None or (after is passage and phase in _STAYS):
                return False
            # It may have ended just now, and be ours. While that is not known it has not ended: who
            # asks again learns it.
            if not passages.wait(after, _SETTLED, VERDICT):
                return True

    @functools.wraps(exception)
    def died(self: Any) -> Any:
        passage = of(self)
        if passage is not None and passage.error is not None:
            return _error(passage.error)
        return exception(self)

    def lastProgress(self: Any) -> Any:
        told = progress.fget(self)
        return passages.progress_before(str(self.runId)) if told is None and passages else told

    kind.isActive = property(isActive, doc=is_active.__doc__)
    kind.lastProgress = property(lastProgress, doc=progress.__doc__)
    kind.exception = died


def _patch_manager(kind: Any, query: Any, passages: Passages) -> None:
    active, gets = kind.active, kind.get
    awaits_any, resets = kind.awaitAnyTermination, kind.resetTerminated

    listed = _listing(active, query, passages)

    @functools.wraps(gets)
    def get(self: Any, id: str) -> Any:
        if not passages:
            return gets(self, id)
        return next((each for each in listed(self) if each.id == id), None)

    @functools.wraps(awaits_any)
    def awaitAnyTermination(self: Any, timeout: Any = None) -> Any:
        if timeout is not None and (not isinstance(timeout, (int, float)) or timeout <= 0):
            return awaits_any(self, timeout)  # which refuses it
        deadline = None if timeout is None else time.monotonic() + timeout
        manager = identity(self._jsqm)
        while True:
            ends = passages.ends(manager)
            if ends.ended:
                if ends.error is not None:
                    raise _error(ends.error)
                if ends.query is not None:
                    ends.query.awaitTermination()  # raises what it has died of
                return None if timeout is None else True
            settled, left = ends.settled, _left(deadline)
            if awaits_any(self, SLICE if left is None else max(0.001, min(left, SLICE))):
                # Of ours it may be, if that does not run on, or of another.
                on = all(each.handle.isActive() for each in passages.ending(manager))
                if not (on or passages.wait_for_verdicts(manager, deadline)):
                    return False
                now = passages.ends(manager)
                if now.settled == settled and not now.ended:
                    return None if timeout is None else True
            elif left is not None and left <= SLICE:
                return False

    @functools.wraps(resets)
    def resetTerminated(self: Any) -> None:
        resets(self)
        passages.forget_ends(identity(self._jsqm))

    kind.active = property(listed, doc=active.__doc__)
    kind.get, kind.awaitAnyTermination = get, awaitAnyTermination
    kind.resetTerminated = resetTerminated


def _listing(active: Any, query: Any, passages: Passages) -> Callable[[Any], list[Any]]:
    """The queries of a manager, with those that are on their way from one run to the next."""

    def listed(self: Any) -> list[Any]:
        if not passages:
            return list(active.fget(self))
        manager = identity(self._jsqm)
        while True:
            before = passages.phases(manager)
            found = list(active.fget(self))
            there = {each.id for each in found}
            if any(each.query not in there for each in passages.ending(manager)):
                # It has ended just now.
                passages.wait_for_verdicts(manager, time.monotonic() + VERDICT)
                if passages.phases(manager) != before:
                    continue
            coming = (*passages.between(manager), *passages.ending(manager))
            found += [query(each.handle) for each in coming if each.query not in there]
            if passages.phases(manager) == before:
                return found

    return listed


def _patch_listener(kind: Any, passages: Passages) -> None:
    started, terminated = kind.onQueryStarted, kind.onQueryTerminated

    @functools.wraps(started)
    def onQueryStarted(self: Any, event: Any) -> None:
        if not (passages and passages.starts_again(str(event.id().toString()))):
            started(self, event)

    @functools.wraps(terminated)
    def onQueryTerminated(self: Any, event: Any) -> None:
        def tell() -> None:
            try:
                terminated(self, event)
            except Exception as error:  # the program's own
                say(f"a StreamingQueryListener has failed: {type(error).__name__}: {error}")

        if passages and not event.exception().isDefined():
            run: str = str(event.runId().toString())
            if passages.withhold(run, tell, VERDICT):
                return
        terminated(self, event)

    kind.onQueryStarted, kind.onQueryTerminated = onQueryStarted, onQueryTerminated


def identity(java: Any) -> int:
    """Tells one object of the JVM from others, whichever reference there is to it."""
    from pyspark import SparkContext

    assert SparkContext._jvm is not None
    return int(SparkContext._jvm.java.lang.System.identityHashCode(java))


def _error(reason: str) -> Exception:
    from pyspark.errors.exceptions.captured import StreamingQueryException

    error: Exception = StreamingQueryException(reason, "", None)
    return error
