"""Reads from Spark's own status store what the tasks took that have ended since the last look.

The store (`org.apache.spark.status.AppStatusStore`) is what Spark's pages show, and there also
where these are switched off. A look costs some twenty round trips, however many tasks there are.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dagster_sparkscale.driver.spark.jvm import Jvm
from dagster_sparkscale.driver.wire import ExecutorTimes, StageTimes

from . import jobs
from .jobs import LATE, MOST_JOBS, Job
from .window import Interval, Stretch

MOST_STAGES = 8
"""Stages of one job that are compared at most: its last ones."""


class TaskReader:
    """The tasks of one SparkContext. For one thread."""

    def __init__(self, jvm: Jvm, clock: Callable[[], float] = time.time) -> None:
        self._jvm, self._clock = jvm, clock
        self._store = jvm.spark.statusStore()
        # Once: each part of such a name costs a round trip.
        status, java = jvm.view.org.apache.spark.status, jvm.view.java
        self._kind = java.lang.Class.forName("org.apache.spark.status.JobDataWrapper")
        self._to_seq = status.KVUtils.viewToSeq
        self._longest_first = status.api.v1.TaskSorting.DECREASING_RUNTIME
        self._any_status = java.util.ArrayList()
        self._totals: dict[str, ExecutorTimes] | None = None
        self._jobs: frozenset[int] = frozenset()
        """Ids of the jobs that the last look has read: they come again."""
        self._retained = int(self._jvm.spark.conf().get("spark.ui.retainedJobs", "1000"))
        self._at = clock()

    def look(self) -> Stretch | None:
        """What has ended since the look before; None of the first one, which has no beginning."""
        began, now = self._at, self._clock()
        totals = self._read_totals()
        listed = self._read_jobs(int((began - LATE) * 1000))
        new = jobs.new(listed, self._jobs)
        before, known = self._totals, jobs.are_all(listed, int(began * 1000), self._retained)
        stage = None if before is None else self._longest_stage(new)
        # Not before all is read: what fails leaves its time to the next look.
        self._totals, self._at = totals, now
        self._jobs = frozenset(each["jobId"] for each in listed)
        if before is None:
            return None
        return Stretch(
            *(began, now),
            jobs=tuple(map(_interval, new)) if known else None,
            executors=tuple(_since(before.get(id), each) for id, each in totals.items()),
            stage=stage,
        )

    def _read_totals(self) -> dict[str, ExecutorTimes]:
        # Those that have gone too: what ended on one before it went counts.
        listed = self._jvm.read(self._store.executorList(False))
        return {
            each["id"]: ExecutorTimes(
                *(each["id"], each["hostPort"].rpartition(":")[0], each["completedTasks"]),
                *(each["totalDuration"], each["totalGCTime"]),
            )
            for each in listed
            if each["completedTasks"]
        }

    def _read_jobs(self, since: int) -> list[Job]:
        """The jobs that have ended since a moment, the last ones first."""
        view = self._store.store().view(self._kind).index("completionTime")
        listed = self._to_seq(view.reverse().last(since).max(MOST_JOBS))
        return [each["info"] for each in self._jvm.read(listed)]

    def _longest_stage(self, new: Sequence[Job]) -> StageTimes | None:
        if not new:
            return None
        longest = max(new, key=lambda job: job["completionTime"] - job["submissionTime"])
        known = [self._stage(int(id)) for id in sorted(longest["stageIds"])[-MOST_STAGES:]]
        ran = [each for each in known if each is not None]
        if not ran:
            return None
        stage = max(ran, key=_wall_ms)
        return self._with_tasks(stage)

    def _stage(self, id: int) -> Mapping[str, Any] | None:
        """A stage that has ended; None: it was skipped, as its result was there, or is not kept."""
        from py4j.protocol import Py4JJavaError

        try:
            stage: Mapping[str, Any] = self._jvm.read(self._store.lastStageAttempt(id))
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() != "java.util.NoSuchElementException":
                raise
            return None
        times = (stage["firstTaskLaunchedTime"], stage["completionTime"])
        return None if None in times or not stage["numCompleteTasks"] else stage

    def _with_tasks(self, stage: Mapping[str, Any]) -> StageTimes:
        which = (stage["stageId"], stage["attemptId"])
        done = int(stage["numCompleteTasks"])
        longest = self._task(which, 0)
        middle = self._task(which, done // 2)
        of = self._jvm.read(self._store.executorSummary(*which))
        on = of.get(longest["executorId"]) if longest else None
        return StageTimes(
            tasks=int(stage["numTasks"]),
            wall_ms=_wall_ms(stage),
            run_ms=sum(int(each["taskTime"]) for each in of.values()),
            gc_ms=int(stage["jvmGcTime"]),
            median_ms=_run_ms(middle),
            longest_ms=_run_ms(longest),
            partition=_partition(longest),
            executor=longest["executorId"] if longest else None,
            executor_tasks=int(on["succeededTasks"]) if on else None,
            executor_ms=int(on["taskTime"]) if on else None,
        )

    def _task(self, stage: tuple[int, int], place: int) -> Mapping[str, Any] | None:
        """The task at a place, the longest first; None: Spark does not keep it."""
        order, any_status = self._longest_first, self._any_status
        found = self._jvm.read(self._store.taskList(*stage, place, 1, order, any_status))
        return found[0] if found else None


def _interval(job: Job) -> Interval:
    return int(job["submissionTime"]), int(job["completionTime"])


def _since(before: ExecutorTimes | None, now: ExecutorTimes) -> ExecutorTimes:
    if before is None:
        return now
    return ExecutorTimes(
        *(now.id, now.host, now.tasks - before.tasks),
        *(now.run_ms - before.run_ms, now.gc_ms - before.gc_ms),
    )


def _wall_ms(stage: Mapping[str, Any]) -> int:
    return max(0, int(stage["completionTime"]) - int(stage["firstTaskLaunchedTime"]))


def _run_ms(task: Mapping[str, Any] | None) -> int | None:
    """How long a task ran, which is what Spark sorts by. Its duration has what it waited for, too:
    of many small ones the driver, which takes their results one after the other."""
    metrics = task["taskMetrics"] if task is not None else None
    return None if metrics is None else int(metrics["executorRunTime"])


def _partition(task: Mapping[str, Any] | None) -> int | None:
    """The partition that a task computed; -1 in events of a Spark that did not tell."""
    if task is None:
        return None
    partition = int(task.get("partitionId", task["index"]))
    return partition if partition >= 0 else None
