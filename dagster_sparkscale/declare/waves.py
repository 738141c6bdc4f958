"""How many partitions of state a query should have, and executors for them, by task waves. Pure.

A stage of a stateful operator has a task for each partition. Executors run them in waves: those
that a core is free for, then the next. The last wave takes as long as a full one.
"""

from dataclasses import dataclass

from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.key_groups import KeyGroups
from dagster_sparkscale.quantities import counted

ROWS_PER_PARTITION = 1_000_000
"""Most rows that a partition should have, unless declared."""
BYTES_PER_PARTITION = 512 * 1024 * 1024
"""Most memory that the state of a partition should take."""
TINY = 10_000
"""Rows. Below it a partition costs more by its task and its files than by what is in it."""
WORTH = 2
"""A change that is worth its restart is at least by this factor."""
BUSY = 0.9
"""R from which batches take about all of their time, as the thresholds of policies have it."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """How many partitions there should be, and why; as text, in words."""

    partitions: int | None
    """None: too little is known to say."""
    change: bool
    """Whether that is another number than there is, and the change worth it."""
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        number = "not known" if self.partitions is None else counted(self.partitions, "partition")
        return "; ".join((number, *self.reasons))


def waves(partitions: int, executors: int, cores: int) -> int:
    """Task waves of a stage of so many partitions.

    Args:
        cores: tasks that an executor runs at a time.

    Raises:
        ValueError: one of them is below 1.
    """
    for name, number in (("partitions", partitions), ("executors", executors), ("cores", cores)):
        if number < 1:
            raise ValueError(f"{name} = {number}: must be at least 1")
    return -(-partitions // (executors * cores))


def aligned(target: int, now: int, partitions: int, cores: int, *, minimum: int = 1) -> int:
    """`target` executors, without those that make no wave fewer.

    - Up: the fewest that have the waves of `target`. Where those are as many as there are now,
      `target` itself: the stateful stages gain nothing, but others may, and a policy that adds one
      at a time would get to the next wave no more.
    - Down: the fewest that have the waves of `target`: no stateful stage gets slower by it.
    - No change: as it is. What a policy holds is left alone: else the one that was added in vain
      would be taken away, and added again.

    Never more than `target`, and never more waves than it has. A policy that goes on asking for one
    target gets there, or to as many waves, by two changes at most.

    Args:
        target: what a policy wants.
        now: what is requested at present.
        partitions: of the stateful operators.
        cores: tasks that an executor runs at a time.
        minimum: never fewer, unless `target` is.
    """
    wanted, present = waves(partitions, target, cores), waves(partitions, now, cores)
    if target == now or (target > now and wanted == present):
        return target
    fewest = -(-partitions // (wanted * cores))
    return min(target, max(fewest, minimum))


def recommend(
    groups: KeyGroups,
    *,
    partitions: int | None,
    rows: int | None,
    size: int | None,
    cores: int,
    bounds: Bounds,
    executors: int | None = None,
    ratio: float | None = None,
    rows_per_partition: int = ROWS_PER_PARTITION,
) -> Recommendation:
    """How many partitions the state of a query should have.

    As many as the most executors have cores, and as keep each below its rows and bytes. Fewer than
    there are only where they are tiny and take several waves even on the most executors. A change
    is recommended from a factor of two on, both of what is wanted and of what would be had; after
    it none is. What is not known is no reason for anything.

    Args:
        partitions: the number at present.
        rows: of all partitions.
        size: bytes that the state stores use, all partitions together.
        cores: tasks that an executor runs at a time.
        executors: requested at present.
        ratio: R, batch processing time over batch interval.
    """
    needs, unknown = _needs(rows, size, cores, bounds.maximum, executors, rows_per_partition)
    if not needs:
        return Recommendation(partitions, False, unknown)
    most = max(tasks for tasks, _ in needs)
    target = groups.covering(most)
    capped = (f"there are no more than {groups.count} key groups",) if most > groups.count else ()
    words = tuple(why for _, why in needs)
    if partitions is None:
        unknown = ("how many partitions there are is not known", *unknown)
        return Recommendation(target, False, (*words, *capped, *unknown))
    if most >= WORTH * partitions and target >= WORTH * partitions:
        why = tuple(why for tasks, why in needs if tasks >= WORTH * partitions)
        idle = _idle(partitions, cores, executors, ratio)
        return Recommendation(target, True, (*why, *idle, *capped, *unknown))
    if (
        rows is not None
        and size is not None
        and bounds.maximum is not None
        and (why := _too_many(partitions, target, rows, cores, bounds.maximum))
    ):
        return Recommendation(target, True, why)
    stays = f"{partitions} stays: nothing asks for a number that is {WORTH} times larger or smaller"
    odd: tuple[str, ...] = ()
    if why_not := groups.why_not(partitions):
        odd = (f"whole key groups there are with another number only: it {why_not}",)
    return Recommendation(partitions, False, (stays, *words, *capped, *odd, *unknown))


def _too_many(
    partitions: int, target: int, rows: int, cores: int, most_executors: int
) -> tuple[str, ...]:
    """Why there should be fewer partitions; empty: there should not."""
    tiny, all_at_once = rows < TINY * partitions, partitions <= most_executors * cores
    if not tiny or all_at_once or partitions < WORTH * target:
        return ()
    there = waves(partitions, most_executors, cores)
    return (
        f"a partition has {rows / partitions:,.0f} rows, fewer than {TINY:,}",
        f"{counted(partitions, 'task')} are {there} waves even on "
        f"{counted(most_executors, 'executor')} of {counted(cores, 'core')}",
    )


def _needs(
    rows: int | None,
    size: int | None,
    cores: int,
    maximum: int | None,
    executors: int | None,
    rows_per_partition: int,
) -> tuple[list[tuple[int, str]], tuple[str, ...]]:
    """How many partitions each reason wants, with the reason in words; and what is not known."""
    needs, unknown = [], []
    most = executors if maximum is None else maximum
    if most:
        undeclared = ", and no maximum is declared" if maximum is None else ""
        at_a_time = counted(most * cores, "task")
        of_cores = f"{counted(most, 'executor')} of {counted(cores, 'core')}"
        needs.append((most * cores, f"{of_cores} run {at_a_time} at a time{undeclared}"))
    else:
        unknown.append("how many executors there may be is not known")
    if rows is None:
        unknown.append("how many rows the state has is not known")
    else:
        wanted = max(1, -(-rows // rows_per_partition))
        each = f"{counted(wanted, 'partition')} of at most {rows_per_partition:,}"
        needs.append((wanted, f"{rows:,} rows fill {each}"))
    if size is None:
        unknown.append("how large the state is is not known")
    else:
        wanted = max(1, -(-size // BYTES_PER_PARTITION))
        each = f"{counted(wanted, 'partition')} of at most {_mib(BYTES_PER_PARTITION)}"
        needs.append((wanted, f"{_mib(size)} fill {each}"))
    return needs, tuple(unknown)


def _idle(
    partitions: int, cores: int, executors: int | None, ratio: float | None
) -> tuple[str, ...]:
    """What is said where batches are slow and cores have nothing to do."""
    if ratio is None or ratio < BUSY or not executors or executors * cores <= partitions:
        return ()
    return (
        f"R is {ratio:.2f}, and stateful operators keep {partitions} of "
        f"{counted(executors * cores, 'core')} busy",
    )


def _mib(size: int) -> str:
    return f"{size / 1024**2:,.0f} MiB"
