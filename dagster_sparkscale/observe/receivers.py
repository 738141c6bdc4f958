"""The places of a driver's receivers, and their absences, in numbers and words. Pure."""

from collections.abc import Iterable
from typing import Any

from dagster_sparkscale.observe.status import Receiver, Relaunch, Status


def receiver_of(status: Status, stream_id: int) -> Receiver | None:
    """The receiver of this stream id."""
    return next((each for each in status.receivers or () if each.stream_id == stream_id), None)


def active(status: Status) -> int | None:
    """How many receivers run on an executor; None: that can't be told."""
    if status.receivers is None:
        return None
    return sum(each.executor is not None for each in status.receivers)


def away(status: Status) -> tuple[Receiver, ...]:
    """The receivers that run nowhere at the moment."""
    return tuple(each for each in status.receivers or () if each.executor is None)


def missing(status: Status, patience: float, at_start: float) -> str | None:
    """Describe receivers that have run nowhere for too long; None: none has.

    Args:
        patience: seconds that a receiver which ran may be away.
        at_start: seconds from the driver's start within which each receiver must run.
    """
    began = {each.stream_id: each.began_at for each in status.relaunches if not each.to_executor}
    found = []
    for each in away(status):
        ran = each.stream_id in began
        seconds = status.now - began.get(each.stream_id, status.started_at)
        if seconds > (patience if ran else at_start):
            of = f" ({each.error})" if each.error else ""
            found.append(f"receiver {each.stream_id} has run nowhere for {seconds:.0f} s{of}")
    return "; ".join(found) or None


def spread(status: Status) -> str | None:
    """Receivers of each executor, the most first, as `[3, 2, 0]`; None: that can't be told."""
    if status.receivers is None:
        return None
    counts = {executor.id: 0 for executor in status.executors}
    for each in status.receivers:
        if each.executor is not None:
            counts[each.executor] = counts.get(each.executor, 0) + 1
    return str(sorted(counts.values(), reverse=True))


def relaunched_since(before: Status, now: Status) -> tuple[Relaunch, ...]:
    """What `now` tells of receivers that were away and `before` did not tell as it ended."""
    over = {(each.stream_id, each.began_at) for each in before.relaunches if each.to_executor}
    return tuple(each for each in now.relaunches if (each.stream_id, each.began_at) not in over)


def in_words(relaunch: Relaunch) -> str:
    """What became of a receiver that was away, as a person is told of it."""
    before = relaunch.from_executor
    came_from = "nowhere" if before is None else f"executor {before}"
    line = f"receiver {relaunch.stream_id}: {came_from} -> "
    if relaunch.to_executor is None:
        return f"{line}runs nowhere ({relaunch.cause})"
    line += f"executor {relaunch.to_executor} ({relaunch.cause}"
    if relaunch.wanted not in (None, relaunch.to_executor):
        line += f", sent to {relaunch.wanted}"
    if relaunch.away_seconds is None:
        return f"{line}; for how long it was away is not known)"
    return f"{line}, away for {relaunch.away_seconds:.2f} s)"


def rows(relaunches: Iterable[Relaunch]) -> list[dict[str, Any]]:
    """Receivers that were away, for a run's page; None is what is not known."""
    return [
        {
            "receiver": each.stream_id,
            "cause": each.cause,
            "from_executor": each.from_executor,
            "to_executor": each.to_executor,
            "sent_to": each.wanted,
            "away_seconds": None if each.away_seconds is None else round(each.away_seconds, 3),
        }
        for each in relaunches
    ]
