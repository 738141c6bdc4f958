"""The way of a start through the store, whatever the cluster: what bars it, and its epoch.

    hold        a durable hold bars it
    checkpoint  is claimed for the stream's next epoch. Claimed by another stream: that one's
                driver must have ended, and its lease is held while the claim changes hands
    epoch       the record is swapped for one of the next epoch
    launch      is the cluster manager's; what it launches looks at the record before it begins

What must not change: each step is a swap, so that of two starts one fails; nothing is launched
before the last of them.
"""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from dagster_sparkscale.clusters.errors import AlreadyRunning, ClusterError, Held
from dagster_sparkscale.clusters.records.leases import Lease
from dagster_sparkscale.clusters.records.store import Claim, Conflict, Record, Store, Submission
from dagster_sparkscale.markdown import cut
from dagster_sparkscale.remedy import Remedy, WithRemedy

ATTEMPT = "recovery attempt"
"""The cause of a start in the history that did not reach its launch."""
_ERROR_LENGTH = 500
"""Characters of a refusal that are kept: ticks and checks repeat it."""


@dataclass(frozen=True)
class Drivers:
    """The drivers of the store's streams, as a cluster manager sees them."""

    runs: Callable[[str], str | None]
    """Describes the newest driver of that stream if it is, or may be, alive; None: it has ended."""
    took: Callable[[str, int], bool]
    """Whether that stream's driver of that epoch reported that it took its checkpoint, and never
    that it lost it."""
    lease: Callable[[str], AbstractContextManager[Lease]]
    """Takes that stream's lease for a moment."""


@dataclass(frozen=True)
class EpochStart:
    """A start that has its epoch."""

    record: Record
    succeeds: tuple[str, int] | None = None
    """Record id and epoch of the last driver that took the checkpoint, and has ended."""
    last: tuple[str, Record] | None = None
    """The name and record of that driver's stream; None: nothing is remembered of it."""

    @property
    def ended_unnoticed(self) -> bool:
        """Whether the driver that took the checkpoint last was declared gone, or is not known."""
        if self.succeeds is None:
            return False
        return self.last is None or self.succeeds[1] <= self.last[1].gone


def refuse_if_held(stream: str, record: Record) -> None:
    """Refuse a start while a durable hold stands.

    Raises:
        Held: the hold stands; names who set it, at which step, and how it is undone.
    """
    if (hold := record.hold) is not None:
        raise Held(
            f"{stream!r} is held by {hold.by}, in the middle of: {hold.step}. It can't be started "
            f"before that is finished or undone: {hold.undo}"
        )


def attempted(record: Record, at: float, failure: str) -> Record:
    """Add the attempt of a recovery to `record`. It may reach its launch or not.

    Args:
        failure: what the driver has failed of, in words.
    """
    history = (*record.history, Submission(record.epoch, at, ATTEMPT))
    return replace(record, history=history, failure=cut(" ".join(failure.split()), _ERROR_LENGTH))


def refused(record: Record, error: str) -> Record:
    """Note in `record` that its last recovery was refused with `error`, unless that has reached its
    launch since."""
    if not record.history or record.history[-1].cause != ATTEMPT:
        return record
    *before, last = record.history
    text = cut(" ".join(error.split()), _ERROR_LENGTH)
    return replace(record, history=(*before, replace(last, error=text)))


def last_refusal(history: Sequence[Submission]) -> str | None:
    """What the last start was refused with; None if it came to a launch, or was a person's."""
    if not history or history[-1].cause != ATTEMPT:
        return None
    return history[-1].error or None


def begin(
    store: Store,
    lease: Lease,
    drivers: Drivers,
    *,
    cause: str,
    checkpoint: str | None,
    declared: Mapping[str, str],
    executors: int | None = None,
) -> EpochStart:
    """Give the stream of `lease` its next epoch. Its driver before that has ended.

    Args:
        checkpoint: normalized; None where none was declared.
        declared: what it is started with, as `declare.drift` tells it.
        executors: how many it begins with.

    Raises:
        Held: a durable hold stands.
        AlreadyRunning: another stream's driver has the checkpoint, or may have.
        LeaseLost, ClusterError: as `Lease.write`.
    """
    record = lease.record
    refuse_if_held(lease.stream, record)
    epoch = record.epoch + 1
    succeeds = None
    if record.checkpoint is not None and record.checkpoint != checkpoint:
        _leave(store, record.checkpoint, drivers)
    if checkpoint is not None:
        claim = Claim(checkpoint, lease.stream, record.id, epoch=epoch)
        succeeds = _claim(store, claim, drivers)
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
            history=(*history, Submission(epoch, now, cause)),
            checkpoint=checkpoint,
            declared=declared,
            executors=executors,
        )
    )
    return EpochStart(written, succeeds, _last(store, lease.stream, written, succeeds))


def taken(checkpoint: str, stream: str, other: str, who: str, record: Record) -> str:
    """Say that `stream` may not have its checkpoint, as `other` has it, whose record is
    `record`."""
    whose = f", started by {record.whose}" if record.whose else ""
    return WithRemedy(
        f"the checkpoint {checkpoint} of {stream!r} is that of {other!r}: {who}{whose}. Two "
        "drivers on one checkpoint lose data: stop that one first, ",
        Remedy.STOP_OTHER,
    )


def _claim(store: Store, mine: Claim, drivers: Drivers) -> tuple[str, int] | None:
    """Claim the checkpoint; returns the last driver that is known to have taken it."""
    claim = store.claim(mine.checkpoint)
    if claim is None:
        return _swap(store, None, mine)
    if claim.stream == mine.stream or store.read(claim.stream) is None:
        return _swap(store, claim, replace(mine, taken_by=_taken_by(store, claim, drivers)))
    # Its lease, so that nobody starts a driver of it while the claim changes hands.
    with drivers.lease(claim.stream) as theirs:
        owner = _of_newest(store, claim)
        if owner is not None and (who := drivers.runs(claim.stream)):
            raise AlreadyRunning(taken(mine.checkpoint, mine.stream, claim.stream, who, owner))
        if owner is not None and not drivers.took(claim.stream, owner.epoch):
            # Its launch may have been told as failed, and happen after all: it would leave a mark
            # in the checkpoint of which no later start knows that its driver has ended.
            by = f"{mine.stream!r}, which has its checkpoint {mine.checkpoint} now"
            theirs.write(replace(theirs.record, gone=owner.epoch, gone_by=by))
        return _swap(store, claim, replace(mine, taken_by=_taken_by(store, claim, drivers)))


def _leave(store: Store, checkpoint: str, drivers: Drivers) -> None:
    """Note who took a checkpoint that its stream is about to leave: it may come back to it."""
    claim = store.claim(checkpoint)
    if claim is not None and (last := _taken_by(store, claim, drivers)) != claim.taken_by:
        _swap(store, claim, replace(claim, taken_by=last))


def _taken_by(store: Store, claim: Claim, drivers: Drivers) -> tuple[str, int] | None:
    """The last driver that is known to have taken a claim's checkpoint, that of its stream, which
    has ended, included."""
    newest = _of_newest(store, claim)
    # A start that was cut off between claim and epoch has left the stream with a driver of before
    # another stream had the checkpoint.
    claimed = newest is not None and newest.epoch >= claim.epoch
    if newest is not None and claimed and drivers.took(claim.stream, newest.epoch):
        return newest.id, newest.epoch
    return claim.taken_by


def _of_newest(store: Store, claim: Claim) -> Record | None:
    """The record of a claim's stream, if its newest driver was given the claim's checkpoint. Else
    it went on with another, or was forgotten, and maybe begun anew."""
    record = store.read(claim.stream)
    has_it = record and (record.id, record.checkpoint) == (claim.id, claim.checkpoint)
    return record if has_it else None


def _last(
    store: Store, stream: str, record: Record, succeeds: tuple[str, int] | None
) -> tuple[str, Record] | None:
    """Find `EpochStart.last`: the stream whose driver took the checkpoint last.

    Args:
        stream: the stream that is started. Most often it succeeds a driver of its own.
        record: the record of `stream`.
    """
    if succeeds is None:
        return None
    if succeeds[0] == record.id:
        return stream, record
    for name in store.streams():
        with contextlib.suppress(ClusterError):  # one that can't be read bars no other's start
            found = store.read(name)
            if found is not None and found.id == succeeds[0]:
                return name, found
    return None


def _swap(store: Store, before: Claim | None, mine: Claim) -> tuple[str, int] | None:
    try:
        store.swap_claim(replace(mine, revision=before.revision + 1 if before else 1))
    except Conflict:
        raise AlreadyRunning(
            f"the checkpoint {mine.checkpoint} of {mine.stream!r} was claimed by another start at "
            "this moment: see which stream has it before you try again"
        ) from None
    return mine.taken_by
