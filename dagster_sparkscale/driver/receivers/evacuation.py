"""Chooses new executors for the receivers of executors that are to go. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from .watch import MOVE, Standing

AGAIN_AFTER = 30.0
"""Seconds a receiver has to come up where it was sent, before it is sent again."""
SETTLE = 5.0
"""Seconds a receiver that is away by itself has to come up by itself."""
STUCK_AFTER = 30.0
"""Seconds after which one that runs nowhere is sent to an executor that has a core for it."""
TELL_AFTER = 60.0
"""Seconds after which it is told of a receiver that has not come up."""


@dataclass(frozen=True, slots=True)
class Host:
    """An executor that may be given receivers."""

    id: str
    tasks: int
    """How many tasks it runs at once; 0: not known, so it is given none."""
    receivers: int = 0
    """How many run there, or are on their way there."""


def to_be_sent(
    receivers: Sequence[Standing], going: Collection[str], hosts: Collection[str], now: float
) -> list[int]:
    """The stream ids of those receivers that have to be sent away from executors that are to go.

    Those that run there; those that are on their way to one that is to go or has gone; those that
    were sent away for this and have not come up for long; and those that ran there last and have
    been away for a while: by themselves they may come up there again. Whoever was sent to an
    executor for another reason, and that stays, is not sent elsewhere.

    Args:
        going: the executors that are to go.
        hosts: those that stay.
    """
    sent = []
    for each in sorted(receivers, key=lambda each: each.stream_id):
        if each.order is not None:
            late = now - each.order.at >= AGAIN_AFTER and each.order.cause != MOVE
            again = each.order.executor not in hosts or late
        elif each.away is None:
            again = each.executor in going
        else:
            again = each.executor in going and each.away >= SETTLE
        if again:
            sent.append(each.stream_id)
    return sent


def stuck(
    receivers: Sequence[Standing], hosts: Collection[str], leaving: Collection[str], now: float
) -> list[int]:
    """The stream ids of those receivers that run nowhere, and that Spark may never get to run.

    Spark starts a receiver on the executors that it has chosen for it, and turns it down on any
    other, as long as one of these is alive: also where none of them ever has a core for it, as when
    only one executor had registered when the program's receivers were given theirs. It chooses so
    too where the executor has died that somebody had sent it to. And on one that is leaving it
    starts nothing any more, for as long as that is there.

    A receiver that has restarted itself with a pause is left alone until that is over and it has
    had time to come up.

    Args:
        hosts: the executors that stay.
        leaving: those that have been told to leave.
    """
    return sorted(
        each.stream_id
        for each in receivers
        if (each.order is not None and each.order.executor in leaving)
        or (
            (each.order is None or each.order.executor not in hosts)
            and each.away is not None
            and each.away >= STUCK_AFTER
            and (each.pauses_until is None or now >= each.pauses_until + SETTLE)
        )
    )


def spread(receivers: Sequence[int], hosts: Sequence[Host]) -> dict[int, str]:
    """Choose an executor for each of these receivers: one with the fewest, and a free core.

    Of several such executors it is the oldest, which goes last when there are too many. A receiver
    without a core is not in the answer.
    """
    hosting = {host.id: host.receivers for host in hosts}
    placed: dict[int, str] = {}
    for receiver in receivers:
        free = [host for host in hosts if hosting[host.id] < host.tasks]
        if not free:
            break
        chosen = min(free, key=lambda host: (hosting[host.id], _age(host.id)))
        placed[receiver] = chosen.id
        hosting[chosen.id] += 1
    return placed


def in_words(
    receivers: Sequence[Standing], going: Collection[str], unsettled: Collection[str], now: float
) -> str | None:
    """Why executors that are to go have not been told to, for people; None: they may be."""
    on_their_way = [each for each in receivers if each.executor in going]
    late = [
        f"receiver {each.stream_id} was to come up on executor {each.order.executor} and has not "
        f"for {each.away:.0f} s"
        for each in on_their_way
        if each.order is not None and each.away is not None and each.away >= TELL_AFTER
    ]
    if late:
        return f"{'; '.join(late)}; executor(s) {_listed(going)} wait for that"
    if on_their_way:
        return (
            f"{len(on_their_way)} receiver(s) are being moved away from executor(s) "
            f"{_listed({each.executor or '' for each in on_their_way})}, which go then"
        )
    if waiting := set(going) & set(unsettled):
        return (
            f"executor(s) {_listed(waiting)} hold what receivers took there and no batch has "
            "processed yet; they go then"
        )
    return None


def counted(receivers: Mapping[int, Standing], sent: Collection[int]) -> dict[str, int]:
    """How many receivers each executor has or is about to have, without those that are now to be
    sent."""
    counts: dict[str, int] = {}
    for id, each in receivers.items():
        place = each.order.executor if each.order is not None else each.executor
        if id not in sent and place is not None:
            counts[place] = counts.get(place, 0) + 1
    return counts


def _age(executor: str) -> tuple[int, str]:
    # Spark numbers executors in the order they are launched.
    return (int(executor), "") if executor.isdecimal() else (0, executor)


def _listed(executors: Collection[str]) -> str:
    return ", ".join(sorted(executors, key=_age))
