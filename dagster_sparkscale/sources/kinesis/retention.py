"""Data that was trimmed before it was read: noticed, and never passed over in silence."""

import logging
import time
from collections.abc import Callable

from .client import KinesisError
from .positions import Kind, Position
from .service import ExpiredIterator, Record, Service

log = logging.getLogger(__name__)

MARGIN_MS = 5_000
"""The service's clock is known to a second. What is newer by more has not been trimmed, even if
the record that was read last has: a shard may have been silent since."""
ASK_EVERY_S = 600.0
"""The stream's retention may be changed at any time; asking counts against an account's quota."""
EMPTY_PAGES = 5
"""Empty pages to bear: the service may answer with nothing though it has the record."""
REFRESHED = 10
"""The part of the retention after which a silent shard's position gets a newer time: this tells old
data in a shard from data that was never read."""


class DataLost(KinesisError):
    """Data is gone before it was read."""


def trimmed(service: Service, shard: str, position: Position, now_ms: int, kept_ms: int) -> bool:
    """Whether data that follows `position` may be gone, in a stream that keeps records for
    `kept_ms`."""
    if position.time_ms is None:  # as at the end of a closed shard
        return False
    if position.time_ms > now_ms - kept_ms + MARGIN_MS:
        return False
    if position.sequence is None:
        return position.time_ms <= now_ms - kept_ms
    return found(service, shard, position.sequence) is None


def found(service: Service, shard: str, sequence: str) -> Record | None:
    """The record of that sequence number; None if the shard does not have it (any more)."""
    iterator = None
    pages = 0
    while pages < EMPTY_PAGES:
        if iterator is None:
            iterator = service.iterator(shard, Position(Kind.AT, sequence))
        try:
            page = service.records(shard, iterator, 1)
        except ExpiredIterator:
            iterator = None
            continue
        if page.records:
            first = page.records[0]
            return first if first["SequenceNumber"] == sequence else None
        if page.next is None or page.behind_ms == 0:
            return None
        iterator, pages = page.next, pages + 1
    return None


class Retention:
    """
    Args:
        fail: whether lost data is an error (failOnDataLoss).
    """

    def __init__(
        self, service: Service, fail: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._service = service
        self._fail = fail
        self._clock = clock
        self._kept_ms: int | None = None
        self._asked_at = 0.0

    def kept_ms(self) -> int:
        """How long the stream keeps a record."""
        if self._kept_ms is None or self._clock() - self._asked_at > ASK_EVERY_S:
            self._kept_ms = self._service.retention_ms()
            self._asked_at = self._clock()
        return self._kept_ms

    def refresh_ms(self) -> float:
        """The age at which the position of a shard without new data is renewed."""
        return self.kept_ms() / REFRESHED

    def lost(self, shard: str, position: Position, now_ms: int) -> bool:
        """Whether data that follows `position` may be gone: nobody has read there for longer than
        data is kept, and the last record read is gone."""
        return trimmed(self._service, shard, position, now_ms, self.kept_ms())

    def report(self, what: str) -> None:
        """
        Raises:
            DataLost: failOnDataLoss is set.
        """
        if self._fail:
            raise DataLost(
                f"{what}. To go on with what is left, set the option failOnDataLoss to false: it "
                "is then counted"
            )
        log.warning("%s; going on with what is left, as failOnDataLoss=false says", what)
