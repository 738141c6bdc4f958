"""Why more executors do not make a stream faster, by what its tasks took. Pure.

    driver      most of the time of batches no job runs: the driver plans, or its sink works there
    skew        the longest task of a stage is always that of the same partition
    executor    it is always on the same executor, or host, whatever partition it computes
    partitions  a stage has fewer tasks than there are slots, so that some executors have none
    gc          executors spend their time on collecting garbage

From the top, the first that the numbers show. That none does is an answer: "not known".
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal, TypeVar

from dagster_sparkscale.observe.status import ExecutorTimes, StageTimes, Status, TaskTimes
from dagster_sparkscale.quantities import counted

T = TypeVar("T")
Kind = Literal["driver", "skew", "executor", "partitions", "gc"]

DRIVER = 0.5
"""Share of the time of batches without a job, from which on it is the driver's: with any number of
executors, batches would take more than half as long (Amdahl)."""
UNEVEN = 3.0
"""Times the median that the longest task of a stage takes, from which on that stage is uneven:
Spark's own measure of a straggler (spark.speculation.multiplier)."""
DECISIVE = 0.3
"""Share of its stage's time that the longest task takes at least, where it matters: behind more
than three waves of others even a long task does not. A slow executor may have two or three of a
stage's tasks, one after the other."""
SLOW = 2.0
"""Times as long as on others that tasks take on a slow executor: half of its cores are lost."""
STEADY = 0.8
"""Share of the uneven stages that have the same partition, or executor, where it is no chance."""
LEAST = 3
"""Stages, or tasks, by which anything is decided."""
GC = 0.1
"""Share of garbage collection in the time of tasks, from which on it is too much: that from which
on Spark's page of executors marks it."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why more executors do not help."""

    kind: Kind | None
    """None: not known."""
    text: str
    """The cause with its numbers, for people; or why it is not known."""


def cause_of(status: Status, task_cpus: int = 1) -> Cause:
    """Why more executors do not make this stream faster.

    Args:
        task_cpus: spark.task.cpus.
    """
    tasks = status.tasks
    if tasks is None:
        return Cause(None, "its driver does not report what tasks take")
    slots = slots_of(status, task_cpus)
    rules: tuple[Callable[[], Cause | None], ...] = (
        lambda: _driver(tasks),
        lambda: _uneven(tasks),
        lambda: _partitions(tasks, slots),
        lambda: _gc(tasks, any(each.receivers for each in status.executors)),
    )
    return next((found for rule in rules if (found := rule()) is not None), _unknown(tasks))


def slots_of(status: Status, task_cpus: int) -> int | None:
    """Tasks of batches that run at a time; None: that is not known."""
    executors = status.executors
    if not executors or not all(each.cores for each in executors):
        return None
    return sum(max(0, each.cores // task_cpus - each.receivers) for each in executors)


def _driver(tasks: TaskTimes) -> Cause | None:
    if not tasks.batch_ms or tasks.job_ms is None:
        return None
    alone = 1 - tasks.job_ms / tasks.batch_ms
    if alone <= DRIVER:
        return None
    text = (
        f"for {alone:.0%} of the time of batches no Spark job runs: the driver plans, or waits for "
        "a source or a sink, and more executors would not take that over"
    )
    return Cause("driver", text)


def _uneven(tasks: TaskTimes) -> Cause | None:
    """One task takes most of a stage: by its partition, or by its executor."""
    found = [each for each in tasks.stages if _is_uneven(each)]
    if len(found) < LEAST or 2 * len(found) < len(tasks.stages):
        return None
    partition = _steady([each.partition for each in found])
    executor = _steady([each.executor for each in found])
    slow = _others_slow(found)
    worst = max(found, key=lambda each: _times(each) or 0)
    numbers = (
        f"the longest of {worst.tasks} tasks of a stage took {(worst.longest_ms or 0) / 1000:.1f} "
        f"s, {_times(worst) or 0:.1f} times the median"
    )
    if executor is not None and (slow or (slow is None and partition is None)):
        return Cause("executor", f"{_where(executor, tasks.executors)} is slow: {numbers}")
    if partition is not None and (slow is False or (slow is None and executor is None)):
        skew = f"the data is skewed: {numbers}, and it is always that of partition {partition}"
        return Cause("skew", skew)
    if partition is not None and executor is not None:
        both = f"it is always that of partition {partition}, on executor {executor}"
        why = f"{numbers}; as {both}, a skewed key and a slow executor can't be told apart"
        return Cause(None, why)
    return None


def _is_uneven(stage: StageTimes) -> bool:
    times, longest = _times(stage), stage.longest_ms or 0
    return times is not None and times >= UNEVEN and longest >= DECISIVE * stage.wall_ms


def _times(stage: StageTimes) -> float | None:
    """How many times the median the longest task took; None: not known, or too short to say."""
    return stage.longest_ms / stage.median_ms if stage.longest_ms and stage.median_ms else None


def _steady(values: Sequence[T | None]) -> T | None:
    """The value that nearly all have; None: there is none."""
    value, times = Counter(values).most_common(1)[0]
    return value if times >= STEADY * len(values) else None


def _others_slow(stages: Sequence[StageTimes]) -> bool | None:
    """Whether the other tasks are slow too, of executors that had a stage's longest; None: not
    known, as they had hardly any."""
    here = here_ms = there = there_ms = 0
    for each in stages:
        if each.executor_tasks is None or each.executor_ms is None or each.longest_ms is None:
            continue
        here += each.executor_tasks - 1
        here_ms += max(0, each.executor_ms - each.longest_ms)
        there += each.tasks - each.executor_tasks
        there_ms += max(0, each.run_ms - each.executor_ms)
    if here < LEAST or there < LEAST:
        return None
    return here_ms / here >= SLOW * there_ms / there


def _where(executor: str, executors: Sequence[ExecutorTimes]) -> str:
    """The executor in words; or its host, where all executors of that are slow."""
    host = next((each.host for each in executors if each.id == executor), None)
    if host is None:
        return f"executor {executor}"
    here = [_mean(each) for each in executors if each.host == host and each.tasks]
    there = [_mean(each) for each in executors if each.host != host and each.tasks]
    if len(here) > 1 and there and min(here) >= SLOW * median(there):
        return f"host {host}, with {len(here)} executors,"
    return f"executor {executor} on host {host}"


def _mean(executor: ExecutorTimes) -> float:
    return executor.run_ms / executor.tasks


def _partitions(tasks: TaskTimes, slots: int | None) -> Cause | None:
    if slots is None or len(tasks.stages) < LEAST:
        return None
    few = [each.tasks for each in tasks.stages if each.tasks < slots]
    if 2 * len(few) <= len(tasks.stages):
        return None
    number = counted(round(median(few)), "task")
    text = (
        f"the longest stage of a batch has {number} for {slots} slots, so that the others are "
        "idle: more partitions would keep them busy"
    )
    return Cause("partitions", text)


def _gc(tasks: TaskTimes, receivers: bool) -> Cause | None:
    """Executors that collect garbage for too long.

    Args:
        receivers: whether there are any: the task of one that was moved has ended, and brings its
            executor the hours that it ran. Then stages count, of which it is in none.
    """
    times: Sequence[StageTimes | ExecutorTimes] = tasks.stages if receivers else tasks.executors
    known = [(each.run_ms, each.gc_ms) for each in times if each.gc_ms is not None]
    run, gc = sum(ran for ran, _ in known), sum(collected for _, collected in known)
    if not run or gc < GC * run:
        return None
    text = f"{gc / run:.0%} of the time of tasks is garbage collection: executors lack memory"
    return Cause("gc", text)


def _unknown(tasks: TaskTimes) -> Cause:
    if len(tasks.stages) < LEAST:
        lately = f"in the last {tasks.seconds:.0f} s"
        return Cause(None, f"fewer than {LEAST} of its stages have ended {lately}")
    return Cause(None, "its tasks take equally long, fill all slots, and take most of each batch")
