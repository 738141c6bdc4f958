"""Tells when the tasks of Spark jobs have ended, also those of a job that has failed; and ends jobs
that nobody needs any more.

A job fails with the first task that fails for good. Its others go on for as long as they are in a
step that asks nobody, such as writing a partition's new state: what they write comes later than the
error. So nothing may be undone, or run, on what a failed job has written before they have ended.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

WITHIN = 120.0
"""Seconds that tasks have to end in."""
_POLL = 0.1
POOL = "spark.scheduler.pool"
OURS = "sparkscale"
"""The pool of all jobs that read or change state. Where Spark's scheduler is FAIR, batches of the
stream, which are in another pool, need not wait until all tasks of ours have had a core."""
_PROPERTIES = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel", POOL)


class StillRunning(RuntimeError):
    """Tasks have not ended in time."""


@contextmanager
def grouped(session: Any, group: str, description: str) -> Iterator[Callable[[], int]]:
    """Have the jobs of this thread be of a group while the context lasts. Gives what tells how many
    tasks of its jobs run now, with those of jobs and of stages that have failed.

    Args:
        pool: of Spark's fair scheduler, where the driver has that one; None: the thread's.
    """
    context = session.sparkContext
    before = {name: context.getLocalProperty(name) for name in _PROPERTIES}
    context.setJobGroup(group, description)
    context.setLocalProperty(POOL, OURS)
    try:
        yield lambda: _running(context, group)
    finally:
        for name, value in before.items():
            context.setLocalProperty(name, value)


@contextmanager
def cancelled_once(
    session: Any, group: str, description: str, unwanted: Callable[[], bool]
) -> Iterator[None]:
    """Have the jobs of this thread be of a group while the context lasts, and be cancelled, each
    that there is or comes, once they are unwanted."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_POLL):
            with suppress(Exception):  # the JVM may be gone, and its jobs with it
                if unwanted():
                    session.sparkContext.cancelJobGroup(group)

    watching = threading.Thread(target=watch, name="sparkscale-unwanted", daemon=True)
    with grouped(session, group, description):
        watching.start()
        try:
            yield
        finally:
            over.set()
            watching.join()


def _running(context: Any, group: str) -> int:
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = {stage for job in jobs if job is not None for stage in job.stageIds}
    return sum(_active(context, stage) for stage in stages)


def _active(context: Any, stage: int) -> int:
    """Tasks of a stage that run, of all its attempts. The public StatusTracker has only the last of
    these; where what a task reads has gone with an executor, Spark begins another one, and tasks of
    the one before go on (`TaskSetManager.isZombie`)."""
    every = context._jvm.java.util.ArrayList()
    none = context._gateway.new_array(context._jvm.double, 0)
    attempts = context._jsc.sc().statusStore().stageData(stage, False, every, False, none)
    return sum(int(attempts.apply(i).numActiveTasks()) for i in range(attempts.size()))


def wait_until_still(running: Callable[[], int]) -> None:
    """Return when no task runs.

    Raises:
        StillRunning: tasks still run after `WITHIN` seconds.
    """
    deadline = time.monotonic() + WITHIN
    while (count := running()) > 0:
        if time.monotonic() >= deadline:
            raise StillRunning(
                f"{count} tasks of the change have not ended {WITHIN:g} s after it failed"
            )
        time.sleep(_POLL)
