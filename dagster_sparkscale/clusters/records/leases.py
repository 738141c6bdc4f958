"""The lease of a stream: the right to change it, held by one operation at a time.

It stands in the stream's record, so taking it, keeping it and every change under it are swaps of
one thing: who has lost it can't change the record any more, whatever it believes.

    taken     swap in oneself with the next fencing number
    renewed   swap in one more beat, every RENEW_EVERY seconds, by a thread of its own
    lost      the swap meets another's change, or none has succeeded for LEASE_SECONDS
    free      given back; its holder is known to have ended; or no beat came for LEASE_SECONDS

What must not change: expiry is judged by what one process sees on its own steady clock, never by
comparing the clocks of two; a holder that froze and wakes up finds its lease lost, by the conflict.

A swap may be done though its answer is lost, and others fail after it. Then the next one meets a
conflict with that: what stands there is looked at, and where it is one of those that were tried,
the lease goes on from there. So it does where nothing but the steering has changed: a person may
pin a stream while an operation holds it, and no operation's write takes that back.
"""

import contextlib
import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import datetime

from dagster_sparkscale.clusters.errors import (
    ClusterError,
    LeaseLost,
    OperationInProgress,
    Overtaken,
)
from dagster_sparkscale.clusters.records.overtaking import CLOCKS_DIFFER, Holder, noted, overtaken
from dagster_sparkscale.clusters.records.steering import Entries
from dagster_sparkscale.clusters.records.store import Conflict, Holding, Record, Store

LEASE_SECONDS = 20.0
"""A lease that was not renewed for so long has expired."""
RENEW_EVERY = 5.0
POLL = 0.05
_STEERINGS = 50
"""Times that steering is tried anew: each time another change has come to its end."""

_log = logging.getLogger(__name__)


class Lease:
    """The right to change one stream, while it lasts."""

    def __init__(
        self,
        store: Store,
        stream: str,
        record: Record,
        clock: Callable[[], float],
        requester: Holder = "",
    ) -> None:
        assert record.lease is not None
        self.stream = stream
        self.requester = requester
        self.holder = record.lease.holder
        self.number = record.lease.number
        """The operation's fencing number: later operations have higher ones."""
        self._store = store
        self._record = record
        self._clock = clock
        self._renewed = clock()
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._over = False
        self._lost = False
        self._overtaken = False
        """Whether a conflict has shown that another changed the record."""
        self._refusal = ""
        """Why it could not be renewed the last time; empty: it could, or was not tried."""
        self._tried: tuple[Record, ...] = ()
        """Records written to replace `_record`, of which at most one is stored."""

    def __repr__(self) -> str:
        return f"Lease({self.stream!r}, {self.holder!r}, number {self.number})"

    @property
    def record(self) -> Record:
        """The stream's record, as it stands."""
        with self._lock:
            self.check()
            return self._record

    def check(self, stream: str | None = None) -> None:
        """Make sure that the lease is held, and, if given, that it is of that stream.

        Raises:
            LeaseLost: this process does not hold the lease any more.
            ClusterError: the lease is another stream's.
        """
        if stream is not None and stream != self.stream:
            raise ClusterError(f"the lease given is for {self.stream!r}, not for {stream!r}")
        if self._over or os.getpid() != self._pid:
            raise LeaseLost(
                f"the lease of {self.stream!r} given by {self.holder} is over: take a new one"
            )
        if self._lost or self._clock() - self._renewed >= LEASE_SECONDS:
            self._lost = True
            why = f"held up for {LEASE_SECONDS:.0f} s or cut off from what is remembered"
            if self._refusal and not self._overtaken:
                why += f" (when it last tried: {self._refusal})"
            raise LeaseLost(
                f"{self.holder} has lost its lease of {self.stream!r}, having been {why}; another "
                "operation may be changing the stream: nothing more was done, look at the stream "
                "and try again"
            )

    def write(self, record: Record) -> Record:
        """Replace the lease's record by `record`, and note in it when the holder's change was asked
        for.

        Raises:
            LeaseLost: the lease is not held any more; nothing was changed.
            ClusterError: the record can't be written.
        """
        with self._lock:
            self.check()
            record = noted(record, self.requester)
            return self._swap(
                lambda mine: replace(record, lease=mine.lease, steering=mine.steering)
            )

    def renew(self) -> None:
        """Keep the lease from expiring.

        Raises:
            LeaseLost: the lease has expired or was taken.
            ClusterError: the store does not answer at present.
        """
        with self._lock:
            self.check()
            self._swap(_with_a_beat)

    def give_back(self) -> None:
        """Free the stream. Never fails: what can't be given back expires."""
        with self._lock:
            # Also where it was lost by the clock alone: nobody may have wanted it.
            if not self._over and not self._overtaken and os.getpid() == self._pid:
                with contextlib.suppress(ClusterError):
                    self._swap(lambda mine: replace(mine, lease=None))
            self._over = True

    def _swap(self, change: Callable[[Record], Record]) -> Record:
        while True:
            # What follows the one that was read, whoever else has read that.
            record = replace(change(self._record), revision=self._record.revision + 1)
            began = self._clock()
            before, self._tried = self._tried, (*self._tried, record)
            try:
                self._store.swap(self.stream, record)
            except Conflict:
                now = self._read()
                if now is not None and _same(now, record):
                    record = now
                elif now is not None and self._goes_on(now, before):
                    self._record, self._tried = now, ()
                    continue
                else:
                    self._lost = self._overtaken = True
                    self.check()
            except ClusterError as error:
                self._refusal = str(error)
                raise
            self._record, self._renewed, self._tried = record, began, ()
            self._refusal = ""
            return self._record

    def _read(self) -> Record | None:
        try:
            return self._store.read(self.stream)
        except ClusterError as error:
            self._refusal = str(error)
            raise

    def _goes_on(self, now: Record, tried: Sequence[Record]) -> bool:
        """Whether what stands there is of this lease, or was steered meanwhile."""
        steered = now.revision > self._record.revision and _same(now, self._record)
        return steered or any(_same(now, each) for each in tried)


def _same(found: Record, written: Record) -> bool:
    """Whether the stored record is the written one, or came of it by steering alone. The store
    keeps only the end of a history."""
    if found.revision > written.revision:
        written = replace(written, revision=found.revision, steering=found.steering)
    return replace(found, history=()) == replace(written, history=())


def _with_a_beat(record: Record) -> Record:
    assert record.lease is not None
    beat = replace(record.lease, beat=record.lease.beat + 1, renewed_at=time.time())
    return replace(record, lease=beat)


def steer(
    store: Store,
    stream: str,
    change: Callable[[Entries], Entries],
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> Record:
    """Change the steering of `stream`, whoever holds it; a stream that was never started gets a
    record.

    Args:
        change: makes the new entries of those that stand there. It is called again where somebody
            else was quicker.

    Raises:
        ClusterError: the record can't be read or written.
    """
    for _ in range(_STEERINGS):
        before = store.read(stream) or Record.new(store.new_id())
        entries = change(before.steering)
        if entries == before.steering:
            return before
        record = replace(before, steering=entries, revision=before.revision + 1)
        try:
            store.swap(stream, record)
            return record
        except Conflict:  # somebody was quicker
            sleep(random.uniform(0, POLL))
        except ClusterError:
            # It may be done, and its answer lost.
            stands = store.read(stream)
            if stands is None or stands.steering != entries:
                raise
            return stands
    raise ClusterError(
        f"{stream!r}: what is remembered of it has changed {_STEERINGS} times while it was to be "
        "steered; nothing was changed, try again"
    )


Keeping = Callable[[Lease], AbstractContextManager[None]]
"""Renews a lease while its context lasts."""


@contextmanager
def _by_a_thread(lease: Lease) -> Iterator[None]:
    ended = threading.Event()

    def keep() -> None:
        while not ended.wait(RENEW_EVERY):
            try:
                lease.renew()
            except LeaseLost:
                return  # whoever uses it learns that
            except Exception as error:  # it may be renewed yet
                _log.warning("the lease of %r can't be renewed: %s", lease.stream, error)

    threading.Thread(target=keep, name="sparkscale-lease", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


@contextmanager
def hold(
    store: Store,
    stream: str,
    holder: Holder,
    wait: float,
    *,
    every: float = POLL,
    keeping: Keeping = _by_a_thread,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Lease]:
    """Hold the lease of `stream` while the context lasts.

    Args:
        wait: seconds to wait for another holder.
        every: seconds between two reads of the record.

    Raises:
        Overtaken: a later request was carried out before this one.
        OperationInProgress: somebody else still holds it after `wait` seconds; names them.
        ClusterError: the record can't be read or written.
    """
    lease = _take(store, stream, holder, wait, every, clock, sleep)
    try:
        with keeping(lease):
            yield lease
    finally:
        lease.give_back()


def _take(
    store: Store,
    stream: str,
    holder: Holder,
    wait: float,
    every: float,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> Lease:
    began = clock()
    met: Holding | None = None
    met_at = began
    while True:
        record = store.read(stream) or Record.new(store.new_id())
        held, now = record.lease, clock()
        if held != met:
            met, met_at = held, now
        if held is None or store.has_ended(held.process) or now - met_at >= LEASE_SECONDS:
            if (why := overtaken(record, holder, time.time())) is not None:
                raise Overtaken(f"{stream!r}: {why}")
            number = record.operations + 1
            mine = Holding(str(holder), number, time.time(), store.process())
            taken = replace(record, lease=mine, operations=number, revision=record.revision + 1)
            lease = Lease(store, stream, taken, clock, holder)
            try:
                store.swap(stream, taken)
                return lease
            except Conflict:  # somebody was quicker
                pass
            except ClusterError:
                # It may be done, and its answer lost: nobody else has this number and moment.
                stands = store.read(stream)
                if stands is None or stands.lease != mine:
                    raise
                return lease
        if held is not None and now - began >= wait:
            raise OperationInProgress(_who(stream, held))
        sleep(min(every, max(POLL, began + wait - now)))


def is_held(store: Store, stream: str, now: float) -> bool:
    """Whether somebody holds the lease of `stream`, by one read of the record. `hold` watches it
    for longer.

    Args:
        now: seconds since the epoch.

    Raises:
        ClusterError: the record can't be read.
    """
    record = store.read(stream)
    held = record.lease if record is not None else None
    if held is None or store.has_ended(held.process):
        return False
    # Ahead of this clock by more than clocks differ, it says nothing.
    return abs(now - max(held.since, held.renewed_at)) < LEASE_SECONDS + CLOCKS_DIFFER


def _who(stream: str, held: Holding) -> str:
    began = datetime.fromtimestamp(held.since)
    form = "%H:%M:%S" if 0 <= time.time() - held.since < 20 * 3600 else "%Y-%m-%d %H:%M:%S"
    place = f" (process {held.process.pid} on {held.process.host})" if held.process.pid else ""
    return f"{held.holder} has held {stream!r} since {began.strftime(form)}{place}"
