"""Spark's own: the allocation of streams, and the one of batch jobs where a stream is under it."""

import math

from benchmarks.policies.loads import Case
from benchmarks.policies.peers.base import scale
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.observe.evaluation import Evaluation


class ExecutorAllocationManager:
    """`org.apache.spark.streaming.scheduler.ExecutorAllocationManager` (SPARK-12133), by its
    source: each 60 s R = mean processing time / batch interval; R >= up: registered +
    max(round(R), 1); R <= down: one less. No completed batch: nothing."""

    def __init__(self, up: float, down: float) -> None:
        """Have its two thresholds."""
        self._up, self._down = up, down

    def decide(self, bounds: Bounds, evaluation: Evaluation, /) -> Hold | ScaleTo:
        """One interval."""
        ratio, registered = evaluation.ratio, evaluation.staying
        if ratio is None or registered is None:
            return Hold("no batch was done")
        if ratio >= self._up:
            # Java's Math.round: a half goes up.
            more = max(math.floor(ratio + 0.5), 1)
            return scale(bounds, evaluation, registered + more, f"R {ratio:.2f}")
        if ratio <= self._down:
            return scale(bounds, evaluation, registered - 1, f"R {ratio:.2f}")
        return Hold(f"R {ratio:.2f}")


class DynamicAllocation:
    """`spark.dynamicAllocation.enabled`, by `org.apache.spark.ExecutorAllocationManager` and
    Spark's guide of job scheduling: tasks that wait for longer than the backlog timeout have 1
    executor added, and 2, 4, 8 for each further such time, up to places for all tasks; an executor
    that had no task for 60 s goes.

    A batch's tasks wait until its last wave begins. They are spread over all executors, so while
    batches come more often than once in the idle timeout, only executors beyond the number of
    tasks are ever idle.
    """

    def __init__(self, case: Case, backlog_timeout: float) -> None:
        """Have its setting.

        Args:
            backlog_timeout: seconds.
        """
        self._slots = case.application.workload.slots
        self._tasks = case.application.tasks
        self._timeout = backlog_timeout

    def decide(self, bounds: Bounds, evaluation: Evaluation, /) -> Hold | ScaleTo:
        """What the batches of the window led to."""
        now, took = evaluation.requested, evaluation.processing_ms
        at_work = evaluation.staying
        if now is None or took is None or not at_work:
            return Hold("no batch was done")
        all_tasks = math.ceil(self._tasks / self._slots)
        if now > all_tasks:
            return scale(bounds, evaluation, all_tasks, "the others are idle")
        waves = math.ceil(self._tasks / (at_work * self._slots))
        waited = took / 1000 * (waves - 1) / waves
        times = int(waited / self._timeout)
        if not times:
            return Hold("no task waited long")
        more = evaluation.completed * (2**times - 1)
        return scale(bounds, evaluation, min(all_tasks, now + more), f"tasks waited {waited:.1f} s")
