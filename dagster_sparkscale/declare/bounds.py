"""Between which numbers of executors a stream can move. Pure."""

import math
from dataclasses import dataclass, replace
from typing import Self

from dagster_sparkscale.quantities import counted


@dataclass(frozen=True)
class Bounds:
    """Between which numbers of executors a stream really can move."""

    minimum: int
    """Fewest executors."""
    maximum: int | None
    """Most executors. None: whatever the cluster has."""
    initial: int
    """Executors that a new driver begins with."""
    note: str | None = None
    """Why `maximum` is not the number that was declared, for people to read."""
    minimum_note: str | None = None
    """Why `minimum` is not the number that was declared, for people to read."""
    useful: int | None = None
    """Most executors that can work on a batch, as the sources tell now. No policy asks for more,
    but more are not out of bounds: a person may know better. None: not known."""
    useful_note: str | None = None
    """Why no more than `useful` are, for people to read."""
    pinned: float = 0.0
    """Executors' worth of places for tasks that receivers take for good."""
    least: int = 1
    """Fewest executors that the stream runs with at all, whatever was declared."""
    least_note: str | None = None
    """Why it can't run on fewer, for people to read; None: nobody says."""
    ceiling: int | None = None
    """Most executors that the driver can have, whatever was declared: spark.cores.max is set from
    it. None: whatever the cluster has."""

    def within_reach(self, executors: int) -> int:
        """`executors` as far as the driver can have them, whatever was declared."""
        if self.ceiling is not None:
            executors = min(executors, self.ceiling)
        return max(executors, self.least)

    def clamp(self, executors: int) -> int:
        """`executors` moved into the bounds; the minimum wins, as in Spark."""
        if self.maximum is not None:
            executors = min(executors, self.maximum)
        return max(executors, self.minimum)

    def aim(self, executors: int) -> int:
        """What a policy that wants `executors` may ask for: within the bounds, and none of them
        in vain; the minimum wins."""
        return self.clamp(executors if self.useful is None else min(executors, self.useful))

    def needing(self, executors: int, why: str) -> Self:
        """These bounds for a stream that can't run on fewer than so many executors. The maximum
        stays what it is: what is out of its reach is refused elsewhere."""
        if self.maximum is not None:
            executors = min(executors, self.maximum)
        if executors < self.minimum:
            return self
        initial = max(self.initial, executors)
        least = max(self.least, executors)
        bounds = replace(self, minimum=executors, initial=initial, least=least, least_note=why)
        return replace(bounds, minimum_note=None)

    @property
    def why_the_minimum(self) -> str | None:
        """Why no fewer than `minimum` may be, for people to read; None: so it is declared."""
        needed = self.least_note if self.minimum == self.least else None
        return needed or self.minimum_note

    def slower_on(self, executors: int, now: int) -> float:
        """How many times as long batches take on `executors` as on `now`: they have the places
        that receivers leave."""
        at_work = now if self.useful is None else min(now, self.useful)
        left = executors - self.pinned
        return max(1.0, (at_work - self.pinned) / left) if left > 0 else math.inf

    def for_shards(
        self,
        shards: int | None,
        *,
        tasks_per_shard: float,
        executor_cores: int,
        cores_per_task: int,
        receivers: int,
    ) -> Self:
        """These bounds while a stream's sources read `shards` shards; None: the number is not
        known.

        Args:
            tasks_per_shard: tasks of a batch for each shard.
            cores_per_task: spark.task.cpus.
            receivers: each takes the place of one task for good.
        """
        if not shards:  # none at all is a moment between two, nothing to plan for
            return self
        # First a whole number of tasks, rid of what floats make of 50 * 1.1.
        tasks = max(1, math.ceil(round(shards * tasks_per_shard, 6)))
        at_a_time = executor_cores // cores_per_task or 1
        useful = -(-(tasks + receivers) // at_a_time)
        beside = f" beside {counted(receivers, 'receiver')}" if receivers else ""
        note = (
            f"{counted(shards, 'shard')} {_be(shards)} read by {counted(tasks, 'task')}{beside}: "
            f"{counted(useful, 'executor')} of {counted(executor_cores, 'core')} {_be(useful)} "
            "as many as can work on a batch"
        )
        return replace(self, useful=useful, useful_note=note)


def _be(number: int) -> str:
    return "is" if number == 1 else "are"
