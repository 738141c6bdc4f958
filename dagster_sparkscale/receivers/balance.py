"""Chooses moves of receivers that spread them evenly over executors. Pure.

As the design document of SPARK-12133 has it (version 2): while an executor has at least one
receiver more than the average, one of its receivers moves to the executor with the fewest.

    N_avg = receivers / executors; a receiver leaves an executor with >= 1 + N_avg
    [3, 2, 0]: N_avg 1.67, 3 >= 2.67 -> [2, 2, 1], and 2 < 2.67: balanced

A move is made only where it brings two executors closer to each other: so the sum of squares falls
with each, which ends; no move makes the spread (most - fewest) worse; none is ever taken back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dagster_sparkscale.declare.decisions import Move
from dagster_sparkscale.observe.evaluate import STALE_AFTER
from dagster_sparkscale.observe.status import Status


@dataclass(frozen=True, slots=True)
class Placement:
    """The executors of all receivers, if the policy can decide on them."""

    receivers: Mapping[str, tuple[int, ...]]
    """Stream ids, by executor; empty for one that has none."""
    free: Mapping[str, int]
    """How many receivers more an executor has cores for."""

    @property
    def in_words(self) -> str:
        """Receivers of each executor, the most first: `[3, 2, 0]`."""
        return str(sorted(map(len, self.receivers.values()), reverse=True))


def moves(receivers: Mapping[str, Sequence[int]], free: Mapping[str, int]) -> tuple[Move, ...]:
    """The moves that balance these receivers, in order; none where they are balanced, or where no
    executor with fewer has a core for another.

    Args:
        receivers: stream ids, by executor; empty for one that has none.
        free: how many receivers more an executor has cores for; one that is missing has none.
    """
    there = {executor: sorted(ids) for executor, ids in receivers.items()}
    room = {executor: free.get(executor, 0) for executor in there}
    made: list[Move] = []
    while move := _next(there, room):
        there[move.from_executor].remove(move.stream_id)
        there[move.to_executor].append(move.stream_id)
        room[move.from_executor] += 1
        room[move.to_executor] -= 1
        made.append(move)
    return tuple(made)


def unbalanced(receivers: Mapping[str, Sequence[int]]) -> bool:
    """Whether an executor has at least one receiver more than the average."""
    counts = [len(ids) for ids in receivers.values()]
    # In whole numbers: at least 1 + total / executors.
    return bool(counts) and (max(counts) - 1) * len(counts) >= sum(counts)


def no_room(there: Placement) -> str | None:
    """Why receivers that are not balanced stay as they are, in words; None: they are balanced, or
    there is a move to make."""
    if not unbalanced(there.receivers) or moves(there.receivers, there.free):
        return None
    return (
        f"receivers of executors {there.in_words} are not balanced, but no executor with at least "
        "two fewer than the most has a core free for another"
    )


def _next(there: Mapping[str, Sequence[int]], room: Mapping[str, int]) -> Move | None:
    """The next move; None: there is none."""
    if not unbalanced(there):
        return None
    source = min(there, key=lambda executor: (-len(there[executor]), executor))
    able = [each for each in there if room[each] > 0]
    able = [each for each in able if len(there[each]) <= len(there[source]) - 2]
    if not able:
        return None
    target = min(able, key=lambda executor: (len(there[executor]), executor))
    return Move(there[source][-1], source, target)


def placement(status: Status, cores_per_task: int) -> Placement | str:
    """The executors of a driver's receivers, or why the policy can't decide on them, in words.

    Args:
        cores_per_task: spark.task.cpus; a receiver takes as many.
    """
    for part in ("executors", "receivers"):
        age = (status.ages or {}).get(part, status.spark_age)
        if age is None or age > STALE_AFTER:
            return f"Spark has told nothing of its {part} of late"
    if status.receivers is None:
        return "it can't be told where its receivers run"
    if status.registered is None or len(status.executors) != status.registered:
        return "its executors are not known"
    if status.removing:
        return f"executors are leaving ({status.removing})"
    ids: dict[str, list[int]] = {executor.id: [] for executor in status.executors}
    for receiver in status.receivers:
        if receiver.moving_to is not None:
            to = f"on its way to executor {receiver.moving_to}"
            return f"receiver {receiver.stream_id} is {to}"
        if receiver.executor is None:
            return f"receiver {receiver.stream_id} runs nowhere at the moment"
        if receiver.executor not in ids:
            gone = f"executor {receiver.executor}, which is not registered"
            return f"receiver {receiver.stream_id} is told of on {gone}"
        ids[receiver.executor].append(receiver.stream_id)
    free = {
        executor.id: max(0, executor.cores // cores_per_task - len(ids[executor.id]))
        for executor in status.executors
    }
    return Placement({executor: tuple(each) for executor, each in ids.items()}, free)
