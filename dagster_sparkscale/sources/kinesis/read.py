"""Reads a range of a shard, page by page. Runs on the executors."""

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, cast

from .page_sizes import Pages
from .positions import Kind, Position, before
from .ranges import Range, asked_for
from .retention import DataLost, trimmed
from .service import ExpiredIterator, Page, Record, Service, arrived_ms

log = logging.getLogger(__name__)
T = TypeVar("T")

STALLED = 40
"""Empty pages in a row at the tip, where the end of the range ought to be."""
PAUSE_S = 0.25


def read(
    service: Service,
    planned: Range,
    fail_on_data_loss: bool = True,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[list[Record]]:
    """The records of a range in order, in lists that are not empty.

    Raises:
        DataLost: the range is not what it was when it was planned, and `fail_on_data_loss`.
        KinesisError: the service does not answer as it should.
    """
    if planned.head:
        yield list(planned.head)
    if not planned.whole:
        yield from _Rest(service, planned, fail_on_data_loss, sleep).pages()


def ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield `items`, and make the next one while the caller works on the last.

    One thread makes them from beginning to end: a page that is parsed by one thread and converted
    by another costs half as much again, for it wanders from core to core.
    """
    over = object()
    with ThreadPoolExecutor(1) as maker:
        coming = maker.submit(next, items, over)
        while (item := coming.result()) is not over:
            coming = maker.submit(next, items, over)
            yield cast(T, item)


class _Rest:
    """What lies behind a range's head."""

    def __init__(
        self, service: Service, planned: Range, fail: bool, sleep: Callable[[float], None]
    ) -> None:
        self._service = service
        self._shard = planned.shard
        self._fail = fail
        self._sleep = sleep
        self._iterator = planned.iterator
        self._position = planned.start
        self._kept_ms = planned.kept_ms
        self._end = planned.end
        self._sizes = Pages(planned.end.time_ms)
        if planned.head:
            first, last = planned.head[0], planned.head[-1]
            self._position = Position(Kind.AFTER, last["SequenceNumber"], arrived_ms(last))
            self._sizes.saw(len(planned.head), arrived_ms(first), arrived_ms(last))

    def pages(self) -> Iterator[list[Record]]:
        stalled = 0
        while True:
            page = self._fetch(PAUSE_S if stalled else 0.0)
            records, ended = self._cut(page.records)
            if records:
                yield records
            if ended:
                return
            if page.next is None:
                if self._end.kind is not Kind.END:
                    self._report("is closed before the record it was to be read up to")
                return
            stalled = 0 if page.records or page.behind_ms else stalled + 1
            if stalled > STALLED:
                self._report("has nothing more before the record it was to be read up to")
                return

    def _fetch(self, pause_s: float = 0.0) -> Page:
        if pause_s:
            self._sleep(pause_s)
        while True:
            if self._iterator is None:
                self._iterator = self._service.iterator(self._shard, self._position)
            try:
                page = self._service.records(self._shard, self._iterator, self._sizes.next())
            except ExpiredIterator:
                self._iterator = None
                continue
            page = asked_for(self._position, page)
            self._check_begin(page)
            self._iterator = page.next
            if page.records:
                first, last = page.records[0], page.records[-1]
                self._position = Position(Kind.AFTER, last["SequenceNumber"], arrived_ms(last))
                self._sizes.saw(len(page.records), arrived_ms(first), arrived_ms(last))
            return page

    def _cut(self, records: list[Record]) -> tuple[list[Record], bool]:
        """The records of the range, and whether the range ends with them."""
        if self._end.sequence is None or not records:
            return records, False
        end, ends_with = self._end.sequence, self._end.kind is Kind.AFTER
        if before(records[-1]["SequenceNumber"], end):
            return records, False
        within = sum(before(record["SequenceNumber"], end) for record in records)
        if records[within]["SequenceNumber"] != end:
            self._report("no longer has the record it was to be read up to")
        elif ends_with:
            within += 1
        return records[:within], True

    def _check_begin(self, page: Page) -> None:
        """Report a gap between what was read so far, or is to be read first, and a page."""
        position = self._position
        if position.sequence is None or not (page.records or page.next is None):
            return
        if position.kind is Kind.AT:
            if page.records and page.records[0]["SequenceNumber"] != position.sequence:
                self._report("no longer has the record it was to be read from")
        elif self._kept_ms is not None:
            # Looked at after the page was read: what is there now has been there then.
            now_ms = self._service.now_ms()
            if trimmed(self._service, self._shard, position, now_ms, self._kept_ms):
                self._report("no longer has all that follows what was read of it")

    def _report(self, what: str) -> None:
        if self._fail:
            raise DataLost(
                f"{self._shard} {what}: data has been trimmed while it was being read. To go on "
                "with what is left, set the option failOnDataLoss to false"
            )
        log.warning("%s %s: going on with what is left", self._shard, what)
