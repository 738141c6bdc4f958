"""Ends one run of a query between two batches, so that waiters pass over it."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from dagster_sparkscale.driver.ending.between_batches import POLL, Ending
from dagster_sparkscale.driver.spark.looks import first_line

from .passages import Passage, Passages
from .runs import Run, Runs


class NotEnded(Exception):
    """The run goes on, or has ended of itself; the text says which."""


class EndedForGood(Exception):
    """The run was ended, and its query can't be started again from here; the text says why."""


def end(
    passages: Passages, runs: Runs, run: Run, within: float, stopping: Callable[[], bool]
) -> Passage:
    """End a run between two batches. Returns the passage, by which the query is to be started
    again, or given up.

    Args:
        within: seconds that its batch in progress has.
        stopping: whether the driver was asked to stop.

    Raises:
        NotEnded: it was not ended by this.
        EndedForGood: it was, and can't be started again; its program learns of that.
    """
    session = run.started.new.session
    manager, context = session._jsparkSession.streams(), session._sc
    ending = Ending(context, run.handle, lambda: False)
    # In this order: an end that was told before is told no more once the program has reset that.
    ends, had_ended = passages.ends(run.manager), _has_ended(manager)
    known = set(runs.of(run.manager))
    others = {str(q.runId().toString()): q for q in manager.active()}
    passage = passages.begin(run.run, run.query, run.manager, run.handle)
    try:
        _until_ended(ending, within, stopping)
        ours = ending.deactivated and not run.handle.exception().isDefined()
    except NotEnded:
        passages.withdraw(passage)
        raise
    except BaseException:
        with suppress(Exception):
            ending.give_up()  # or the query would wait for good
        passages.give_up(passage)
        raise
    if passage.stop_wanted or not ours:
        passages.give_up(passage)
        raise NotEnded("its query has ended of itself meanwhile, or was stopped by its program")
    try:
        if had_ended and passages.ends(run.manager) is ends:
            passages.settle(run.manager)
        else:
            late = {id: it.handle for id, it in runs.of(run.manager).items() if id not in known}
            _take_back(passages, run, manager, {**others, **late})
        with suppress(Exception):  # some can't be read, as with metrics of an odd type
            passage.progress = run.started.handle.lastProgress
        run.started.ended()
    except Exception as error:
        why = f"it was ended, and then: {first_line(error)}"
        passages.give_up(passage, why)
        raise EndedForGood(why) from error
    passages.ended(passage)
    return passage


def _until_ended(ending: Ending, within: float, stopping: Callable[[], bool]) -> None:
    deadline = time.monotonic() + within
    while not ending.step():
        why = None
        if time.monotonic() >= deadline:
            why = f"its batch in progress has not ended in {within:g} s"
        elif stopping():
            why = "its driver was asked to stop before anything was touched"
        if why is not None and ending.give_up():
            raise NotEnded(why)
        time.sleep(POLL)


def _has_ended(manager: Any) -> bool:
    """Whether Spark tells those who wait for any query of a manager that one has ended."""
    try:
        return bool(manager.awaitAnyTermination(1))
    except Exception:  # what it has died of
        return True


def _take_back(passages: Passages, run: Run, manager: Any, others: dict[str, Any]) -> None:
    """Have Spark not tell of an end that is ours. It keeps one end alone: where another query has
    ended in the meantime, that is told from here.

    Args:
        others: the JVM's queries of the manager that may have ended since the run was asked to.
    """
    try:
        manager.awaitAnyTermination(1)
    except Exception:
        passages.settle(run.manager)
        return  # another one has died, of which Spark goes on to tell
    manager.resetTerminated()
    ended = [each for id, each in others.items() if id != run.run and not each.isActive()]
    died = [each for each in ended if each.exception().isDefined()]
    passages.settle(run.manager, next(iter([*died, *ended]), None))
