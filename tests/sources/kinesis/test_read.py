import logging
import threading
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_sparkscale.sources.kinesis.client import KinesisError
from dagster_sparkscale.sources.kinesis.positions import END, Kind, Offset, Position
from dagster_sparkscale.sources.kinesis.ranges import Range, asked_for, between, joined
from dagster_sparkscale.sources.kinesis.read import STALLED, ahead, read
from dagster_sparkscale.sources.kinesis.retention import DataLost
from dagster_sparkscale.sources.kinesis.service import Page

from .memory import BEGAN_MS, FIRST_SEQUENCE, MemoryService
from .query import numbers, rows

SHARD = "shardId-000000000000"
TRIM = Position(Kind.TRIM)


def at(record, kind=Kind.AT):
    at_ms = round(record["ApproximateArrivalTimestamp"] * 1000)
    return Position(kind, record["SequenceNumber"], at_ms)


def sequences(service, planned, fail=True):
    return rows(service, [planned], fail).get(SHARD, [])


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=400),
    st.sampled_from([1, 1000, 10**6]),
    st.sampled_from([0, 1, 2, 3]),
    st.booleans(),
    st.data(),
)
def test_a_range_is_what_lies_between_its_ends(apart, stretch, expire_every, closed, data):
    """Read by itself, or with some of it read beforehand: it is the same."""
    service = MemoryService(expire_every=expire_every, gap_ms=10**7)
    stamps = []
    for pause in apart:
        stamps.append((stamps[-1] if stamps else BEGAN_MS) + pause * stretch)
    records = service.put(SHARD, stamps)
    service.ms = stamps[-1] + 1
    service.kept_ms = 10**12
    if closed:
        service.split(SHARD)
    begin = data.draw(st.integers(0, len(records) - 1), label="begin")
    until = data.draw(st.integers(begin, len(records) - 1), label="until")
    how = data.draw(st.sampled_from(["at", "after", "first"]), label="start")
    if how == "first":
        begin, start = 0, data.draw(st.sampled_from([TRIM, Position(Kind.TIME, time_ms=BEGAN_MS)]))
    elif how == "after" and begin:
        start = at(records[begin - 1], Kind.AFTER)
    else:
        start = at(records[begin])
    if closed and data.draw(st.booleans(), label="to the end"):
        wanted, end = records[begin:], END
    elif data.draw(st.booleans(), label="with its end"):
        wanted, end = records[begin : until + 1], at(records[until], Kind.AFTER)
    else:
        wanted, end = records[begin:until], at(records[until])
    head = data.draw(st.integers(0, len(wanted)), label="head")
    # Where the last record of the range is known there is nothing to look for behind it.
    ended = head == len(wanted) and end.kind is Kind.AFTER
    whole = head == len(wanted) and (ended or data.draw(st.booleans(), label="whole"))
    iterator = None
    if head and data.draw(st.booleans(), label="goes on"):
        iterator = service.iterator(SHARD, at(wanted[head - 1], Kind.AFTER))
    planned = Range(
        SHARD,
        start,
        end,
        head=tuple(wanted[:head]),
        whole=whole,
        iterator=iterator,
    )
    service.advance(data.draw(st.sampled_from([0, 1, 400_000]), label="passes"))
    assert sequences(service, planned) == numbers(wanted)
    assert sequences(service, Range(SHARD, start, end)) == numbers(wanted)


def test_what_has_been_read_already_takes_no_call():
    service = MemoryService()
    records = service.put(SHARD, [BEGAN_MS] * 3)
    planned = Range(SHARD, TRIM, at(records[-1], Kind.AFTER), head=tuple(records), whole=True)
    assert sequences(service, planned) == numbers(records)
    assert not service.calls


def test_the_end_of_a_range_is_waited_for():
    # The service has it, and may take a moment to show it.
    service = MemoryService()
    first = service.put(SHARD, [BEGAN_MS])[0]
    later = Position(Kind.AT, str(int(first["SequenceNumber"]) + 1), BEGAN_MS + 700)
    slept = []

    def sleep(seconds):
        slept.append(seconds)
        if len(slept) == 3:
            service.advance(1000)
            service.put(SHARD, [BEGAN_MS + 700])

    found = [numbers(page) for page in read(service, Range(SHARD, TRIM, later), sleep=sleep)]
    assert found == [numbers([first])]
    assert len(slept) == 3


def test_what_arrived_before_the_moment_to_read_from_is_left_out_even_if_it_comes_late():
    # Nothing has followed the moment yet; then comes a record of a clock that is behind.
    service = MemoryService()
    later = str(FIRST_SEQUENCE + 2)
    planned = Range(
        SHARD, Position(Kind.TIME, time_ms=BEGAN_MS), Position(Kind.AFTER, later, BEGAN_MS)
    )

    def sleep(_):
        service.put(SHARD, [BEGAN_MS - 5, BEGAN_MS + 5])

    assert [numbers(page) for page in read(service, planned, sleep=sleep)] == [[later]]


def lost(service, planned, what):
    with pytest.raises(DataLost, match=what):
        sequences(service, planned)


def test_a_range_whose_end_has_gone_is_a_loss(caplog):
    service = MemoryService()
    records = service.put(SHARD, [BEGAN_MS] * 5)
    service.advance(24 * 3_600_000)
    left = service.put(SHARD, [service.ms])
    planned = Range(SHARD, at(records[0], Kind.AFTER), at(records[3]))
    lost(service, planned, "no longer has the record it was to be read up to")
    with caplog.at_level(logging.WARNING):
        assert sequences(service, planned, fail=False) == []
    assert "going on with what is left" in caplog.text
    # An end that is newer than what is left is found all the same.
    planned = Range(SHARD, at(records[0], Kind.AFTER), at(left[0], Kind.AFTER))
    assert sequences(service, planned) == numbers(left)


def test_a_range_whose_first_record_has_gone_is_a_loss():
    service = MemoryService()
    records = service.put(SHARD, [BEGAN_MS, BEGAN_MS, BEGAN_MS + 10, BEGAN_MS + 10])
    service.advance(24 * 3_600_000 + 5)
    planned = Range(SHARD, at(records[0]), at(records[3]))
    lost(service, planned, "no longer has the record it was to be read from")
    assert sequences(service, planned, fail=False) == numbers(records[2:3])


def test_records_that_go_while_a_range_is_read_are_a_loss():
    service = MemoryService()
    records = service.put(SHARD, [BEGAN_MS, BEGAN_MS + 10, BEGAN_MS + 20, BEGAN_MS + 30])
    start, end, kept_ms = at(records[0], Kind.AFTER), at(records[3]), service.kept_ms
    planned = Range(SHARD, start, end, kept_ms=kept_ms)
    service.advance(kept_ms - 1)
    assert sequences(service, planned) == numbers(records[1:3])
    service.advance(15)
    lost(service, planned, "no longer has all that follows what was read of it")
    assert sequences(service, planned, fail=False) == numbers(records[2:3])
    headed = Range(SHARD, Position(Kind.TRIM), end, head=tuple(records[:1]), kept_ms=kept_ms)
    lost(service, headed, "no longer has all that follows what was read of it")


def test_records_that_go_before_a_closed_shard_is_read_to_its_end_are_a_loss():
    service = MemoryService()
    records = service.put(SHARD, [BEGAN_MS, BEGAN_MS + 10])
    service.advance(1000)
    service.split(SHARD)
    planned = Range(SHARD, at(records[0], Kind.AFTER), END, kept_ms=service.kept_ms)
    assert sequences(service, planned) == numbers(records[1:])
    service.advance(service.kept_ms - 500)
    lost(service, planned, "no longer has all that follows what was read of it")
    assert sequences(service, planned, fail=False) == []


def test_a_range_that_ends_beyond_its_shard_is_a_loss():
    service = MemoryService()
    records = service.put(SHARD, [BEGAN_MS] * 2)
    beyond = Position(Kind.AT, str(int(records[-1]["SequenceNumber"]) + 9), BEGAN_MS)
    lost(service, Range(SHARD, TRIM, beyond), "has nothing more before the record")
    assert service.calls[SHARD] <= STALLED + 3
    assert sequences(service, Range(SHARD, TRIM, beyond), fail=False) == numbers(records)
    service.split(SHARD)
    lost(service, Range(SHARD, TRIM, beyond), "is closed before the record")
    assert sequences(service, Range(SHARD, TRIM, beyond), fail=False) == numbers(records)


def test_an_error_of_the_service_is_one_of_the_read():
    service = MemoryService()
    with pytest.raises(KinesisError, match="no shard shardId-7"):
        list(read(service, Range("shardId-7", TRIM, END)))


def test_a_reader_that_stops_early_ends():
    service = MemoryService()
    service.put(SHARD, [BEGAN_MS] * 10_100)
    service.split(SHARD)
    pages = ahead(read(service, Range(SHARD, TRIM, END)))
    assert len(next(pages)) == 10_000
    pages.close()
    assert service.calls == Counter({SHARD: 2}), "the next page was on its way"


@given(st.lists(st.integers() | st.none()))
def test_reading_ahead_changes_nothing(items):
    assert list(ahead(iter(items))) == items


def test_the_next_one_is_made_while_the_last_one_is_worked_on():
    made = [threading.Event(), threading.Event(), threading.Event()]

    def make():
        for number, event in enumerate(made):
            event.set()
            yield number

    for number in ahead(make()):
        if number + 1 < len(made):
            assert made[number + 1].wait(30), "nothing else is asked of it meanwhile"


def test_what_goes_wrong_ahead_is_told_where_it_would_have_been():
    def make():
        yield 1
        raise KinesisError("no more")

    items = ahead(make())
    assert next(items) == 1
    with pytest.raises(KinesisError, match="no more"):
        next(items)


def test_ranges_lie_between_offsets():
    five, seven = Position(Kind.AFTER, "5", 1), Position(Kind.AT, "7", 2)
    begin = Offset(
        "s",
        {
            "moved": five,
            "stays": five,
            "ended": END,
            "ends": five,
            "renewed": five,
            "reset": five,
            "silent": Position(Kind.TIME, time_ms=9),
        },
        from_ms=3,
    )
    until = Offset(
        "s",
        {
            "moved": seven,
            "stays": five,
            "ended": END,
            "ends": END,
            "renewed": Position(Kind.AFTER, "5", 99),
            "reset": Position(Kind.TRIM, time_ms=99),
            "silent": Position(Kind.TIME, time_ms=99),
            "begun": seven,
            "begun, silent": Position(Kind.TIME, time_ms=3),
        },
        from_ms=3,
    )
    assert between(begin, until) == [
        Range("moved", five, seven),
        Range("ends", five, END),
        Range("begun", Position(Kind.TIME, time_ms=3), seven),
    ]


def test_ranges_of_a_shard_that_follow_each_other_are_one():
    service = MemoryService(expire_every=1)
    records = service.put(SHARD, range(BEGAN_MS, BEGAN_MS + 40))
    service.advance(1000)
    ten, twenty, thirty = (at(records[number], Kind.AFTER) for number in (9, 19, 29))
    whole = Range(SHARD, TRIM, ten, head=tuple(records[:10]), whole=True)
    also_whole = Range(SHARD, ten, twenty, head=tuple(records[10:20]), whole=True)
    behind = service.iterator(SHARD, at(records[14], Kind.AFTER))
    open_ended = Range(SHARD, ten, twenty, head=tuple(records[10:15]), iterator=behind)
    last = Range(SHARD, twenty, thirty, head=tuple(records[20:30]), whole=True)
    other = Range("other", TRIM, END)
    for ranges, wanted in (
        ([whole], records[:10]),
        ([whole, other, also_whole], records[:20]),
        ([whole, open_ended, other], records[:20]),
        ([whole, open_ended, last, other], records[:30]),
        ([whole, also_whole, other, last], records[:30]),
    ):
        one = joined(ranges)
        assert [each.shard for each in one] == [SHARD, "other"][: len(one)]
        assert sequences(service, one[0]) == numbers(wanted)
    assert joined([whole, also_whole])[0].whole, "nothing is left to be read"


def test_a_page_from_a_moment_begins_with_the_first_record_of_it():
    service = MemoryService()
    records = service.put(SHARD, [4, 5, 3, 6])
    page = Page(records, "next", 7)
    assert asked_for(Position(Kind.TIME, time_ms=5), page) == Page(records[1:], "next", 7)
    assert asked_for(Position(Kind.TIME, time_ms=4), page) is page
    assert asked_for(Position(Kind.TIME, time_ms=9), page) == Page([], "next", 7)
    for other in (TRIM, Position(Kind.AFTER, "1", 99), Position(Kind.AT, "1", 99)):
        assert asked_for(other, page) is page
