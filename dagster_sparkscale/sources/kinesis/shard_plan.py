"""Plans a batch's part of one shard, and reads as few of its records as possible."""

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from .client import KinesisError
from .positions import END, Kind, Position, before
from .ranges import Range, asked_for
from .service import ExpiredIterator, Page, Record, Service, arrived_ms
from .span import Density

CARRIED_RECORDS = 1000
"""Records that travel with a plan at the beginning of a range: a second of a full shard. They show
how dense the records lie, even if those come in bursts."""
FIRST_LOOK = 20
"""Records of the first page, while their size is not known."""
FORWARD_RECORDS = 10_000
EMPTY_PAGES = 5
"""Empty pages in a row before the rest is left to the next batch: a second, at five calls a second.
The next batch tries twice as many: it may have to begin where this one did."""
EMPTY_PAGES_TO_STOP = 2000
"""Empty pages in a row for a query that stops at a certain point and has no next batch. No query
tries more."""
BACK_MS = 1000
BACK_GROWTH = 4
"""How far to look back for a record to end at in a shard that has fallen silent, and the factor by
which each further look goes back."""
REST_MS = 10_000
"""The stream's time that may lie behind such a record: the next batch reads it in one page."""
REST_TO_STOP_MS = 1000
"""The stream's time that may lie behind such a record for a query that stops, and reads it itself:
a look or two more cost as much."""
FRESH_S = 240.0
"""An iterator is used for this long; the service lets it live for 300 s."""
NO_LOOKS_S = 60.0
"""Seconds for which ends are found by reading on, after a look for one by its time has failed."""
SAFE_MS = 60_000
"""A shard that shows nothing has nothing older than this."""


@dataclass
class Memory:
    """The memory of a shard between batches. All of it can be found out again."""

    density: Density = field(default_factory=Density)
    position: Position | None = None
    iterator: str | None = None
    """Reads on from `position`."""
    got_at: float = 0.0
    lag_is_told: bool = False
    """Whether the service has ever said that there is more: an emulator may not."""
    patience: int = EMPTY_PAGES
    """Empty pages to try."""
    no_looks_before: float = 0.0
    """The time before which no record is looked for by its time, as that has failed."""

    def keep(self, position: Position, iterator: str | None, now: float) -> None:
        self.position, self.iterator, self.got_at = position, iterator, now

    def learn(self, records: Sequence[Record]) -> None:
        """Learn the density and the size of records from some that follow each other."""
        size = sum(len(each["Data"]) for each in records) * 0.75 / len(records)
        seconds = (arrived_ms(records[-1]) - arrived_ms(records[0])) / 1000
        rate = self.density.records_per_s
        if seconds > 0 and len(records) >= FIRST_LOOK:
            now = len(records) / seconds
            rate = now if rate is None else (rate + now) / 2
        self.density = Density(rate, size)


@dataclass(frozen=True)
class Bounds:
    """The bounds of a batch in one shard."""

    until_ms: float
    """The batch takes nothing that arrived later."""
    stop: bool
    """Whether the query ends at `until_ms` (Trigger.AvailableNow)."""
    span_ms: float | None
    records: int | None
    bytes: int | None
    """A shard with records gives one even where this is 0: a shard's share of a batch's limit may
    be so small."""
    governed_ms: float | None
    """The span that makes a batch as long as it should be. Unlike `span_ms` it bounds the first
    page
    too: the work on a record may be much."""
    carried_bytes: int
    refresh_ms: float


@dataclass(frozen=True)
class Step:
    """The plan for one shard."""

    range: Range | None
    position: Position
    behind_ms: int


@dataclass(frozen=True)
class ShardPlanner:
    """Plans one shard's part of one batch.

    One class, though long: the steps of one algorithm, each of which goes on from the iterator and
    the position of the one before.

    Raises from every method:
        KinesisError: the service does not answer as it should.
    """

    service: Service
    shard: str
    closed: bool
    start: Position
    memory: Memory
    bounds: Bounds
    now_ms: int
    clock: Callable[[], float] = time.monotonic

    def step(self) -> Step:
        if self.start.kind is Kind.TIME and (self.start.time_ms or 0) > self.now_ms:
            return Step(None, self.start, 0)  # its time is yet to come
        limit = self._head_limit()
        page = self._first_page(limit)
        head = self._wanted(page.records)
        allowed = self._allowed(head)
        if len(allowed) < len(head):
            self.memory.learn(head)
            return self._carried(allowed, self._behind(page, allowed[-1]))
        if len(head) < len(page.records):
            return self._carried(head, behind_ms=0)
        if page.next is None:
            return self._carried(head, end=END, behind_ms=0)
        if not head:
            position = self._renewed(page.behind_ms)
            self.memory.keep(position, page.next, self.clock())
            if page.behind_ms and not page.records:
                self.memory.patience = min(2 * self.memory.patience, EMPTY_PAGES_TO_STOP)
            return Step(None, position, page.behind_ms)
        self.memory.patience = EMPTY_PAGES
        self.memory.learn(head)
        last = head[-1]
        self.memory.keep(_after(last), page.next, self.clock())
        self.memory.lag_is_told |= page.behind_ms > 0
        if page.behind_ms == 0 and (len(head) < limit or self.memory.lag_is_told):
            return self._carried(head, behind_ms=0)
        until = self.bounds.until_ms
        if self.bounds.span_ms is not None:
            until = min(until, arrived_ms(head[0]) + self.bounds.span_ms)
        enough = self.bounds.records is not None and len(head) >= self.bounds.records
        if enough or until <= arrived_ms(last):
            return self._carried(head, behind_ms=self._behind(page, last))
        return self._beyond(head, page.next, until)

    def _head_limit(self) -> int:
        most = CARRIED_RECORDS
        size = self.memory.density.bytes_per_record
        if size is None:
            most = FIRST_LOOK
        else:
            most = min(most, int(self.bounds.carried_bytes / max(size, 1.0)))
            if self.bounds.bytes is not None:
                # Somewhat more than may be: those beyond are read again.
                most = min(most, 2 + int(1.5 * self.bounds.bytes / max(size, 1.0)))
        if self.bounds.records is not None:
            most = min(most, self.bounds.records)
        return max(1, most)

    def _first_page(self, limit: int) -> Page:
        memory = self.memory
        fresh = memory.position == self.start and self.clock() - memory.got_at < FRESH_S
        if fresh and memory.iterator is not None:
            with contextlib.suppress(ExpiredIterator):
                return asked_for(self.start, self._page(memory.iterator, limit))
        return asked_for(self.start, self._from(self.start, limit))

    def _from(self, position: Position, limit: int, hasty: bool = False) -> Page:
        """Read the first page from `position` on that has records."""
        while True:
            try:
                iterator = self.service.iterator(self.shard, position, hasty)
                return self._page(iterator, limit)
            except ExpiredIterator:
                continue

    def _page(self, iterator: str, limit: int) -> Page:
        """Read the first page that has records, or shows that there are none, or the last one
        tried:
        where records lie far apart, the service may give empty pages between them."""
        tries = EMPTY_PAGES_TO_STOP if self.bounds.stop else self.memory.patience
        for _ in range(tries):
            page = self.service.records(self.shard, iterator, limit)
            if page.records or page.next is None:
                return page
            if page.behind_ms == 0 and not self.closed:
                return page
            iterator = page.next
        if self.bounds.stop:
            raise KinesisError(f"{self.shard} gives nothing but empty pages, {tries} by now")
        return page

    def _wanted(self, records: list[Record]) -> list[Record]:
        if not self.bounds.stop:
            return records
        for number, record in enumerate(records):
            if arrived_ms(record) > self.bounds.until_ms:
                return records[:number]
        return records

    def _allowed(self, head: list[Record]) -> list[Record]:
        """The first records that a batch may have; one at least."""
        left, governed = self.bounds.bytes, self.bounds.governed_ms
        for number, record in enumerate(head):
            if left is not None:
                left -= _size(record)
            late = governed is not None and arrived_ms(record) - arrived_ms(head[0]) > governed
            if number and (late or (left is not None and left < 0)):
                return head[:number]
        return head

    def _carried(self, records: list[Record], behind_ms: int, end: Position | None = None) -> Step:
        """A step whose records all travel with the plan."""
        if end is None:
            end = _after(records[-1]) if records else self.start
        if end == self.start:
            return Step(None, end, behind_ms)
        whole = Range(self.shard, self.start, end, head=tuple(records), whole=True)
        return Step(whole, end, behind_ms)

    def _renewed(self, behind_ms: int) -> Position:
        """The position of a shard that shows nothing up to `behind_ms` before its tip; its time is
        set forward now and then."""
        position, safe = self.start, self.now_ms - behind_ms - SAFE_MS
        if position.time_ms is None or safe - position.time_ms < self.bounds.refresh_ms:
            return position
        return replace(position, time_ms=safe)

    def _beyond(self, head: list[Record], iterator: str, until_ms: float) -> Step:
        """A step that goes on behind `head`, to the first record at `until_ms` or later, or to the
        last record or near it."""
        page, exact = None, not self.bounds.stop
        if self.clock() >= self.memory.no_looks_before:
            try:
                page = self._look(until_ms)
                if page.records:
                    # A limit need not be kept to the record. A moment to stop at has to be, and
                    # the service may have been asked for an earlier one: its own present.
                    exact |= until_ms < self.bounds.until_ms
                elif page.next is None or self.closed:
                    return self._open(head, iterator, END, 0)
                else:
                    page = None if page.behind_ms else self._latest(arrived_ms(head[-1]), until_ms)
            except KinesisError:
                # An end found by reading on will do. If nothing works, that says so.
                self.memory.no_looks_before = self.clock() + NO_LOOKS_S
                page = None
        # Where it comes before the head, clocks of the service disagree: stamps are not in order.
        if page is None or not before(head[-1]["SequenceNumber"], _first(page)["SequenceNumber"]):
            return self._forward(head, iterator, until_ms)
        first = _first(page)
        if exact or arrived_ms(first) > until_ms:
            end = Position(Kind.AT, first["SequenceNumber"], arrived_ms(first))
            return self._open(head, iterator, end, self._behind(page, first))
        end, behind_ms, _ = self._read_on(first, page.next, until_ms)
        return self._open(head, iterator, end, behind_ms)

    def _look(self, moment_ms: float) -> Page:
        """Read one record that arrived at a moment or later."""
        return self._from(Position(Kind.TIME, time_ms=int(moment_ms)), 1, hasty=True)

    def _latest(self, after_ms: float, until_ms: float) -> Page | None:
        """Find a late record of a shard in which nothing arrived at `until_ms` or later: others
        follow it for a short time only. None: no record is after `after_ms`, or looks do not find
        one."""
        rest_ms = REST_TO_STOP_MS if self.bounds.stop else REST_MS
        found, low_ms, none_ms, back_ms = None, after_ms, until_ms, BACK_MS
        while True:
            # Back in longer and longer strides till something is found, then between the two.
            moment_ms = until_ms - back_ms
            if found is not None or moment_ms <= low_ms:
                if none_ms - low_ms <= rest_ms:
                    return found
                moment_ms = (low_ms + none_ms) / 2
            page = self._look(moment_ms)
            if page.records:
                found, low_ms = page, max(moment_ms, arrived_ms(_first(page)))
            elif page.behind_ms:
                return found  # There is more, and too far from here.
            else:
                none_ms, back_ms = moment_ms, BACK_GROWTH * back_ms

    def _forward(self, head: list[Record], iterator: str, until_ms: float) -> Step:
        """A step that goes on behind `head` and finds its end by reading on."""
        records, size = self.bounds.records, self.bounds.bytes
        if records is not None:
            records -= len(head)
        if size is not None:
            size -= sum(map(_size, head))
        end, behind_ms, more = self._read_on(head[-1], iterator, until_ms, records, size)
        if more is None:
            return self._open(head, iterator, end, behind_ms)
        return self._carried(head + more, behind_ms, end)

    def _read_on(
        self,
        last: Record,
        iterator: str | None,
        until_ms: float,
        records: int | None = None,
        size: int | None = None,
    ) -> tuple[Position, int, list[Record] | None]:
        """Read from `last` to the first record that arrived after `until_ms`, or to the tip: one
        page, as the next batch goes on from there, or all pages if the query stops, as it may have
        no next batch.

        Args:
            records, size: limits in records and bytes; None: only `until_ms` is one.

        Returns:
            The end, how far it is behind the tip, and the records behind `last`, unless those are
            too many to travel with a plan.
        """
        taken: list[Record] | None = []
        count = taken_size = carried_size = 0
        while iterator is not None:
            limit = FORWARD_RECORDS if records is None else min(FORWARD_RECORDS, records - count)
            try:
                page = self._page(iterator, limit)
            except ExpiredIterator:
                page = self._from(_after(last), limit)
            self.memory.lag_is_told |= page.behind_ms > 0
            for record in page.records:
                taken_size += _size(record)
                if arrived_ms(record) > until_ms or (size is not None and taken_size > size):
                    return _after(last), self._behind(page, last), taken
                last, count = record, count + 1
                carried_size += len(record["Data"])
                if carried_size > self.bounds.carried_bytes:
                    taken = None
                elif taken is not None:
                    taken.append(record)
            iterator = page.next
            at_tip = page.behind_ms == 0 and not self.closed
            at_tip &= self.memory.lag_is_told or not page.records
            if iterator is not None and (at_tip or not self.bounds.stop or count == records):
                return _after(last), 0 if at_tip else self._behind(page, last), taken
        return END, 0, taken

    def _open(self, head: list[Record], iterator: str, end: Position, behind_ms: int) -> Step:
        opened = Range(self.shard, self.start, end, head=tuple(head), iterator=iterator)
        return Step(opened, end, behind_ms)

    def _behind(self, page: Page, last: Record) -> int:
        """How far behind the tip `last` is. An emulator may always say 0."""
        return max(page.behind_ms, self.now_ms - arrived_ms(last), 0)


def _first(page: Page) -> Record:
    return page.records[0]


def _size(record: Record) -> int:
    """Bytes of its data, which is in base64."""
    return len(record["Data"]) * 3 // 4


def _after(record: Record) -> Position:
    return Position(Kind.AFTER, record["SequenceNumber"], arrived_ms(record))
