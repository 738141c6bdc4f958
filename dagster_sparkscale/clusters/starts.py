"""The way of a start through the store, whatever the cluster: what bars it, and its epoch.

    hold        a durable hold bars it
    checkpoint  is claimed for the stream's next epoch. Claimed by another stream: that one's
                driver must have ended, and its lease is held while the claim changes hands
    epoch       the record is swapped for one of the next epoch
    launch      is the cluster manager's; what it launches looks at the record before it begins

What must not change: each step is a swap, so that of two starts one fails; nothing is launched
before the last of them.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from dagster_sparkscale.clusters.errors import AlreadyRunning, Held
from dagster_sparkscale.clusters.leases import Lease
from dagster_sparkscale.clusters.store import Claim, Conflict, Record, Store, Submission

ATTEMPT = "recovery attempt"
"""Cause of a line of history that has not come to a launch."""


@dataclass(frozen=True)
class Others:
    """The other streams of the store, as a cluster manager sees them."""

    runs: Callable[[str], str | None]
    """Who runs, or may run, as the newest driver of that stream, in words; None: nobody."""
    lease: Callable[[str], AbstractContextManager[Lease]]
    """Takes that stream's lease for a moment."""


@dataclass(frozen=True)
class Start:
    """A start that has its epoch."""

    record: Record
    succeeds: tuple[str, int] | None = None
    """Record id and epoch of another stream's driver that had the checkpoint, and has ended."""


def refuse_if_held(stream: str, record: Record) -> None:
    """Refuse a start while a durable hold stands.

    Raises:
        Held: it does; says who set it, in the middle of what, and how it is undone.
    """
    if (hold := record.hold) is not None:
        raise Held(
            f"{stream!r} is held by {hold.by}, in the middle of: {hold.step}. It can't be started "
            f"before that is finished or undone: {hold.undo}"
        )


def attempted(record: Record, at: float) -> Record:
    """`record` with one more recovery begun, which may come to a launch or not."""
    return replace(record, history=(*record.history, Submission(record.epoch, at, ATTEMPT)))


def begin(
    store: Store,
    lease: Lease,
    others: Others,
    *,
    cause: str,
    checkpoint: str | None,
    declared: Mapping[str, str],
    executors: int | None = None,
    fenced: bool = False,
) -> Start:
    """Give the stream of `lease` its next epoch. Its driver before that has ended.

    Args:
        checkpoint: normalized; None where none was declared.
        declared: what it is started with, as `declare.drift` tells it.
        executors: how many it begins with.
        fenced: whether the driver before was kept from its checkpoint by another's mark.

    Raises:
        Held: a durable hold stands.
        AlreadyRunning: another stream's driver has the checkpoint, or may have.
        LeaseLost, ClusterError: as `Lease.write`.
    """
    record = lease.record
    refuse_if_held(lease.stream, record)
    epoch = record.epoch + 1
    succeeds = None
    if checkpoint is not None:
        mine = Claim(checkpoint, lease.stream, record.id, epoch)
        succeeds = _claim(store, mine, others)
    now = time.time()
    process = store.process()
    history = record.history
    if cause == "recovery" and history and history[-1].cause == ATTEMPT:
        history = history[:-1]  # this is what came of it
    written = lease.write(
        replace(
            record,
            epoch=epoch,
            desired="running",
            desired_since=now,
            host=process.host,
            submitter=process,
            submitter_pid=process.pid,
            submitter_birth=process.birth,
            history=(*history, Submission(epoch, now, cause)),
            checkpoint=checkpoint,
            declared=declared,
            executors=executors,
            known_epoch=record.known_epoch if fenced else record.epoch,
        )
    )
    return Start(written, succeeds)


def _claim(store: Store, mine: Claim, others: Others) -> tuple[str, int] | None:
    """Claim the checkpoint; returns which driver of another stream had it, if one had."""
    claim = store.claim(mine.checkpoint)
    if claim is None or claim.stream == mine.stream or store.read(claim.stream) is None:
        mine = replace(mine, after=claim.after if claim and claim.id == mine.id else None)
        _swap(store, claim, mine)
        return mine.after
    # Its lease, so that nobody starts a driver of it while the claim changes hands.
    with others.lease(claim.stream):
        owner = store.read(claim.stream)
        known = owner is not None and owner.id == claim.id
        # Of another epoch: it went on elsewhere since, or never came to this launch.
        has_it = owner is not None and known and owner.epoch == claim.epoch
        has_it = has_it and owner is not None and owner.checkpoint == claim.checkpoint
        if has_it and (who := others.runs(claim.stream)):
            raise AlreadyRunning(
                f"the checkpoint {mine.checkpoint} of {mine.stream!r} is that of "
                f"{claim.stream!r}: {who}. Two drivers on one checkpoint lose data: stop that "
                "one first"
            )
        mine = replace(mine, after=(claim.id, claim.epoch) if known else None)
        _swap(store, claim, mine)
    return mine.after


def _swap(store: Store, before: Claim | None, mine: Claim) -> None:
    try:
        store.swap_claim(replace(mine, revision=before.revision + 1 if before else 1))
    except Conflict:
        raise AlreadyRunning(
            f"the checkpoint {mine.checkpoint} of {mine.stream!r} was claimed by another start at "
            "this moment: see which stream has it before you try again"
        ) from None
