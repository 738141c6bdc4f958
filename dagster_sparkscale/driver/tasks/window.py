"""Sums up what several looks have found of tasks, for the last minute or so. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dagster_sparkscale.driver.wire import ExecutorTimes, StageTimes, TaskTimes

KEPT = 60.0
"""Seconds that are summed up at least: the window of most policies."""
KEPT_INTERVALS = 3
"""Batch intervals that are summed up at least: a window should have three batches or more."""
MOST_STAGES = 12
"""Stretches in the seconds that are summed up: whoever follows an operation asks twice a second."""
MOST_EXECUTORS = 50

Interval = tuple[int, int]
"""When something began and ended, in milliseconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """What was found of the tasks that ended between two looks."""

    began: float
    """Seconds since the epoch, by the driver's clock, as the two below."""
    ended: float
    jobs: tuple[Interval, ...] | None = ()
    """None: there were more jobs than are read."""
    executors: tuple[ExecutorTimes, ...] = ()
    stage: StageTimes | None = None
    """The longest stage of the longest job; None: no job ended."""


def kept(interval_ms: int) -> float:
    """Seconds that are summed up.

    Args:
        interval_ms: of the batches.
    """
    return max(KEPT, KEPT_INTERVALS * interval_ms / 1000)


def add(stretches: Sequence[Stretch], new: Stretch, seconds: float) -> tuple[Stretch, ...]:
    """`stretches` with a new one, without those that are older than `seconds`. A stretch that is
    shorter than its share of them is put together with the next one."""
    last = stretches[-1] if stretches else None
    if last is not None and last.ended - last.began < seconds / MOST_STAGES:
        stretches, new = stretches[:-1], _together(last, new)
    return (*(each for each in stretches if each.ended > new.ended - seconds), new)


def sums(stretches: Sequence[Stretch], batches: Iterable[Interval]) -> TaskTimes | None:
    """The sums of all stretches; None: there is none.

    Args:
        batches: those that have completed.
    """
    if not stretches:
        return None
    began, ended = stretches[0].began, stretches[-1].ended
    jobs = [each.jobs for each in stretches]
    # A batch of which a part has gone by before the first stretch began lacks its jobs there.
    whole = union(each for each in batches if began * 1000 <= each[0] and each[1] <= ended * 1000)
    known = None not in jobs and whole
    ran = union(interval for each in jobs for interval in each or ())
    totals: dict[str, ExecutorTimes] = {}
    for each in (executor for stretch in stretches for executor in stretch.executors):
        totals[each.id] = _sum(totals[each.id], each) if each.id in totals else each
    return TaskTimes(
        seconds=round(ended - began, 3),
        batch_ms=length(whole) if known else None,
        job_ms=length(common(whole, ran)) if known else None,
        executors=_some(totals),
        stages=tuple(each.stage for each in stretches if each.stage is not None)[-MOST_STAGES:],
    )


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Put intervals together that overlap: the time that they cover stays, in order."""
    found: list[Interval] = []
    for began, ended in sorted(intervals):
        if ended <= began:
            continue
        if found and began <= found[-1][1]:
            found[-1] = (found[-1][0], max(ended, found[-1][1]))
        else:
            found.append((began, ended))
    return found


def common(one: Sequence[Interval], other: Sequence[Interval]) -> list[Interval]:
    """The time that is in both; each is a `union`."""
    found, left, right = [], 0, 0
    while left < len(one) and right < len(other):
        began, ended = max(one[left][0], other[right][0]), min(one[left][1], other[right][1])
        if began < ended:
            found.append((began, ended))
        if one[left][1] < other[right][1]:
            left += 1
        else:
            right += 1
    return found


def length(intervals: Iterable[Interval]) -> int:
    return sum(ended - began for began, ended in intervals)


def _together(one: Stretch, other: Stretch) -> Stretch:
    executors = {each.id: each for each in one.executors}
    for each in other.executors:
        executors[each.id] = _sum(executors[each.id], each) if each.id in executors else each
    jobs = None if one.jobs is None or other.jobs is None else (*one.jobs, *other.jobs)
    stages = [each for each in (one.stage, other.stage) if each is not None]
    longest = max(stages, key=lambda stage: stage.wall_ms, default=None)
    return Stretch(one.began, other.ended, jobs, tuple(executors.values()), longest)


def _sum(one: ExecutorTimes, other: ExecutorTimes) -> ExecutorTimes:
    return ExecutorTimes(
        *(other.id, other.host, one.tasks + other.tasks),
        *(one.run_ms + other.run_ms, one.gc_ms + other.gc_ms),
    )


def _some(executors: Mapping[str, ExecutorTimes]) -> tuple[ExecutorTimes, ...]:
    """The executors with a task, `MOST_EXECUTORS` at most, from the slowest on in even steps: the
    one in the middle of these is about the one in the middle of all."""
    by_mean = sorted(
        (each for each in executors.values() if each.tasks),
        key=lambda each: (-each.run_ms / each.tasks, each.id),
    )
    step = -(-len(by_mean) // MOST_EXECUTORS) or 1
    return tuple(by_mean[::step])
