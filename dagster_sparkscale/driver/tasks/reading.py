"""Reads from Spark's own status store what the tasks took that have ended since the last look.

The store (`org.apache.spark.status.AppStatusStore`) is what Spark's pages show, and there also
where these are switched off. A look costs some eight round trips, however many tasks there are.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dagster_sparkscale.driver.spark.jvm import Jvm
from dagster_sparkscale.driver.wire import ExecutorTimes, StageTimes

from .window import Interval, Stretch

MOST_JOBS = 500
"""Jobs of a stretch that are read at most; each is some 700 bytes."""
MOST_STAGES = 8
"""Stages of one job that are compared at most: its last ones."""
RECEIVERS = "Streaming job running receiver"
"""Begins the description of a job that is no batch, but lasts as long as a receiver."""


class TaskReader:
    """The tasks of one SparkContext. For one thread."""

    def __init__(self, jvm: Jvm, clock: Callable[[], float] = time.time) -> None:
        self._jvm, self._clock = jvm, clock
        self._store = jvm.spark.statusStore()
        self._totals: dict[str, ExecutorTimes] | None = None
        self._jobs: set[int] = set()
        """The jobs of the last stretch: one that ends while it is read may come again."""
        self._at = clock()

    def look(self) -> Stretch | None:
        """What has ended since the look before; None of the first one, which has no beginning."""
        began, now = self._at, self._clock()
        totals = self._read_totals()
        jobs = self._read_jobs(int(began * 1000))
        before, self._totals, self._at = self._totals, totals, now
        if before is None:
            return None
        stage = self._longest_stage(jobs)
        return Stretch(
            *(began, now),
            jobs=None if len(jobs) >= MOST_JOBS else tuple(map(_interval, jobs)),
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

    def _read_jobs(self, since: int) -> list[Mapping[str, Any]]:
        """The jobs that have ended since a moment, and were not read yet."""
        java = self._jvm.view.java
        kind = java.lang.Class.forName("org.apache.spark.status.JobDataWrapper")
        view = self._store.store().view(kind).index("completionTime").first(since)
        listed = self._jvm.view.org.apache.spark.status.KVUtils.viewToSeq(view.max(MOST_JOBS))
        read = [each["info"] for each in self._jvm.read(listed)]
        new = [
            each
            for each in read
            if each["jobId"] not in self._jobs
            and each["submissionTime"] is not None
            and not (each["description"] or "").startswith(RECEIVERS)
        ]
        self._jobs = {each["jobId"] for each in read}
        return new

    def _longest_stage(self, jobs: Sequence[Mapping[str, Any]]) -> StageTimes | None:
        if not jobs:
            return None
        longest = max(jobs, key=lambda job: job["completionTime"] - job["submissionTime"])
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
        longest = self._task(which, 0, "DECREASING_RUNTIME")
        middle = self._task(which, done // 2, "DECREASING_RUNTIME")
        of = self._jvm.read(self._store.executorSummary(*which))
        on = of.get(longest["executorId"]) if longest else None
        return StageTimes(
            tasks=int(stage["numTasks"]),
            wall_ms=_wall_ms(stage),
            run_ms=sum(int(each["taskTime"]) for each in of.values()),
            gc_ms=int(stage["jvmGcTime"]),
            median_ms=_duration(middle),
            longest_ms=_duration(longest),
            partition=_partition(longest),
            executor=longest["executorId"] if longest else None,
            executor_tasks=int(on["succeededTasks"]) if on else None,
            executor_ms=int(on["taskTime"]) if on else None,
        )

    def _task(self, stage: tuple[int, int], place: int, order: str) -> Mapping[str, Any] | None:
        """The task at a place, by how long it ran; None: Spark does not keep it."""
        sorting = getattr(self._jvm.view.org.apache.spark.status.api.v1.TaskSorting, order)
        any_status = self._jvm.view.java.util.ArrayList()
        found = self._jvm.read(self._store.taskList(*stage, place, 1, sorting, any_status))
        return found[0] if found else None


def _interval(job: Mapping[str, Any]) -> Interval:
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


def _duration(task: Mapping[str, Any] | None) -> int | None:
    return None if task is None or task["duration"] is None else int(task["duration"])


def _partition(task: Mapping[str, Any] | None) -> int | None:
    """The partition that a task computed; -1 in events of a Spark that did not tell."""
    if task is None:
        return None
    partition = int(task.get("partitionId", task["index"]))
    return partition if partition >= 0 else None
