"""How long the batches of a stream take, on how many executors. Pure.

Tasks run in waves: of P tasks, as many run at a time as there are slots, and an evenly filled batch
takes ceil(P / slots) times as long as one task. What Spark does between waves, and what it does
itself, is in `overhead`. A part of the work that only one slot does bounds the speed-up (Amdahl),
and so does a sink that takes no more than so many records per second.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dagster_sparkscale.declare.learner import Workload


@dataclass(frozen=True, slots=True)
class Application:
    """A stream's program and its cluster, as far as they decide how long batches take."""

    workload: Workload
    overhead: float
    """Seconds that a batch takes by the driver alone, whatever its records and executors."""
    work: float
    """Seconds that one slot works on one record."""
    shards: int | None = None
    """Shards of its source; None: the source does not tell, and `partitions` has the tasks."""
    partitions: int | None = None
    """Tasks of a batch; None: the shards times the workload's `tasks_per_shard`."""
    waves: bool = True
    """Whether tasks are few and even enough that the last wave counts as a whole one. False: slots
    share the work as if it were a fluid."""
    skew: float = 1.0
    """Times the mean that the largest partition has."""
    serial: float = 0.0
    """Share of the work that is done by one slot alone."""
    sink_rate: float | None = None
    """Records per second of processing that the sink takes at most, on however many executors;
    None: it has no such bound."""
    noise: float = 0.0
    """Relative standard deviation of the processing time; its distribution is lognormal."""
    start_delay: float = 30.0
    """Seconds from the decision until new executors work, the operation's own time included."""
    queues: bool = True
    """DStreams: a batch each interval, and batches wait for each other. False: Structured
    Streaming, where a batch begins once the one before is done, and not before its trigger, and
    takes all that has come."""
    max_records: int | None = None
    """Records of a batch at most: the rest stays in the source. None: no limit."""
    tells_lag: bool = False
    """Whether its source tells how far behind it the stream is."""
    batch_failures: float = 0.0
    """Share of the batches that fail. One of DStreams fails for good; of one of Structured
    Streaming, which would end its query, a stage runs again: it takes twice as long."""
    executor_failures: float = 0.0
    """Failures of one executor in one hour. Another is started at once, and the tasks that the lost
    one was at run again."""
    costs: tuple[tuple[float, float], ...] = ()
    """Times `work` that a record takes, from so many seconds on; 1 before the first of them."""

    def __post_init__(self) -> None:
        """Check it.

        Raises:
            ValueError: a field has a value that no application has; the error names it.
        """
        for name, right, fits in _RIGHT:
            value = getattr(self, name)
            if value is not None and not fits(value):
                raise ValueError(f"{name} = {value!r}: must be {right}")
        if self.workload.batch_interval <= 0:
            raise ValueError(
                f"workload.batch_interval = {self.workload.batch_interval!r}: must be above 0"
            )
        if self.shards is None and self.partitions is None:
            raise ValueError("partitions = None: must be given where shards are not")
        if self.skew > self.tasks:
            raise ValueError(
                f"skew = {self.skew!r}: must be at most the number of tasks, {self.tasks}: the "
                "largest partition can't have more than all records"
            )

    @property
    def interval(self) -> float:
        """The batch interval, seconds."""
        return self.workload.batch_interval

    @property
    def tasks(self) -> int:
        """Tasks of a batch."""
        if self.partitions is not None:
            return self.partitions
        # Rounded first, rid of what floats make of 50 * 1.1.
        return max(1, math.ceil(round((self.shards or 0) * self.workload.tasks_per_shard, 6)))

    def places(self, executors: int) -> int:
        """Tasks that run at a time on so many executors."""
        return max(0, executors * self.workload.slots - self.workload.pinned)

    def share(self, executors: int) -> float:
        """Seconds that a second of one slot's work takes on so many executors; infinite where they
        have no place for a task.

        In waves the largest of skewed partitions runs in the middle one: where Spark puts it is
        chance, and fixed by its number.
        """
        places, tasks = self.places(executors), self.tasks
        if not places:
            return math.inf
        largest = self.skew / tasks
        if not self.waves:
            return max(largest, 1 / min(places, tasks))
        count = -(-tasks // places)
        if tasks == 1:
            return 1.0
        other = (tasks - self.skew) / (tasks - 1) / tasks
        # No slot is idle as long as others have more than one task to go.
        return max(count * other, (count - 1) / 2 * other + largest, 1 / min(places, tasks))

    def busy(self, records: float, executors: int, cost: float = 1.0) -> float:
        """Seconds of a batch beside its overhead, without noise.

        Args:
            cost: times `work` that a record takes.
        """
        if not records:
            return 0.0
        share = self.share(executors)
        seconds = records * self.work * cost * (self.serial + (1 - self.serial) * share)
        if self.sink_rate is not None:
            seconds = max(seconds, records / self.sink_rate)
        return seconds

    def seconds(self, records: float, executors: int, cost: float = 1.0) -> float:
        """The processing time of a batch, without noise."""
        return self.overhead + self.busy(records, executors, cost)

    def capacity(self, executors: int, cost: float = 1.0) -> float:
        """Records per second that so many executors keep up with, without noise; 0 where the
        overhead takes the whole interval."""
        each = self.busy(1.0, executors, cost)
        left = max(0.0, self.interval - self.overhead)
        return left / each / self.interval if each else math.inf


def _is_share(value: float) -> bool:
    return 0 <= value < 1


def _is_amount(value: float) -> bool:
    return 0 <= value < math.inf


def _is_count(value: float) -> bool:
    return value >= 1 and type(value) is int


def _are_steps(value: tuple[tuple[float, float], ...]) -> bool:
    times = [at for at, _ in value]
    return times == sorted(times) and all(0 < cost < math.inf for _, cost in value)


_RIGHT: tuple[tuple[str, str, Callable[[Any], bool]], ...] = (
    ("overhead", "seconds, at least 0", _is_amount),
    ("work", "seconds, at least 0", _is_amount),
    ("shards", "a whole number, at least 1", _is_count),
    ("partitions", "a whole number, at least 1", _is_count),
    ("skew", "at least 1", lambda value: 1 <= value < math.inf),
    ("serial", "at least 0 and below 1", _is_share),
    ("sink_rate", "above 0", lambda value: 0 < value < math.inf),
    ("noise", "at least 0 and below 1", _is_share),
    ("start_delay", "seconds, at least 0", _is_amount),
    ("max_records", "a whole number, at least 1", _is_count),
    ("batch_failures", "at least 0 and below 1", _is_share),
    ("executor_failures", "at least 0", _is_amount),
    ("costs", "pairs of seconds, in order, and factors above 0", _are_steps),
)
