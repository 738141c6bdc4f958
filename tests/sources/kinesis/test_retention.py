import logging
from dataclasses import replace

import pytest

from dagster_sparkscale.sources.kinesis.positions import END, Kind, Position
from dagster_sparkscale.sources.kinesis.retention import (
    ASK_EVERY_S,
    MARGIN_MS,
    DataLost,
    Retention,
)
from dagster_sparkscale.sources.kinesis.service import Page

from .memory import MemoryService

SHARD = "shardId-000000000000"
DAY_MS = 24 * 3_600_000


def make(fail=True):
    service = MemoryService()
    return service, Retention(service, fail, service.seconds)


def after(record):
    at_ms = round(record["ApproximateArrivalTimestamp"] * 1000)
    return Position(Kind.AFTER, record["SequenceNumber"], at_ms)


def test_what_is_newer_than_data_is_kept_is_there():
    service, retention = make()
    (record,) = service.put(SHARD, [service.ms])
    service.advance(DAY_MS - MARGIN_MS - 1)
    moment = Position(Kind.TIME, time_ms=service.ms - DAY_MS + MARGIN_MS + 1)
    for position in (after(record), moment):
        assert not retention.lost(SHARD, position, service.ms)
    assert not service.calls, "nothing was looked at"


def test_a_record_that_was_read_last_and_has_gone_is_a_loss():
    service, retention = make()
    (record,) = service.put(SHARD, [service.ms])
    service.advance(DAY_MS - 1)
    assert not retention.lost(SHARD, after(record), service.ms), "it is still there"
    service.advance(1)
    service.calls.clear()
    assert retention.lost(SHARD, after(record), service.ms)
    assert service.calls[SHARD] == 1, "that there is nothing up to the tip is told at once"
    service.put(SHARD, [service.ms])
    assert retention.lost(SHARD, after(record), service.ms)


def test_a_moment_of_which_nothing_was_seen_is_lost_with_its_time():
    service, retention = make()
    for kind in (Kind.TIME, Kind.TRIM):
        position = Position(kind, time_ms=service.ms - DAY_MS + 1)
        assert not retention.lost(SHARD, position, service.ms)
        assert retention.lost(SHARD, position, service.ms + 1)


def test_what_has_no_time_or_was_read_to_its_end_is_not_lost():
    service, retention = make()
    service.advance(100 * DAY_MS)
    for position in (END, Position(Kind.TRIM), Position(Kind.AFTER, "1"), Position(Kind.AT, "1")):
        assert not retention.lost(SHARD, position, service.ms)


def test_an_iterator_that_expires_is_got_anew():
    service, retention = make()
    (record,) = service.put(SHARD, [service.ms])
    service.advance(DAY_MS - 1)
    given = service.iterator
    expired = [given(SHARD, Position(Kind.TRIM))]

    def iterator(shard, position):
        got = given(shard, position)
        # As if it had been under way for an hour.
        return expired.pop().rsplit(" ", 1)[0] + " 0" if expired else got

    service.iterator = iterator
    assert not retention.lost(SHARD, after(record), service.ms)
    assert not expired


@pytest.mark.parametrize(("empty", "there"), [(1, True), (4, True), (9, False)])
def test_a_record_behind_empty_pages_is_there(empty, there):
    service, retention = make()
    (record,) = service.put(SHARD, [service.ms])
    service.advance(DAY_MS - 1)
    given = service.records
    pages = [Page([], None, 1)] * empty

    def records(shard, iterator, limit):
        return replace(pages.pop(), next=iterator) if pages else given(shard, iterator, limit)

    service.records = records
    assert retention.lost(SHARD, after(record), service.ms) == (not there)


def test_how_long_data_is_kept_is_asked_for_again_after_a_while():
    service, retention = make()
    assert retention.kept_ms() == DAY_MS
    service.kept_ms = 7 * DAY_MS
    service.advance(ASK_EVERY_S * 1000)
    assert retention.kept_ms() == DAY_MS
    service.advance(1)
    assert retention.kept_ms() == 7 * DAY_MS
    assert retention.refresh_ms() == pytest.approx(0.7 * DAY_MS)


def test_a_loss_is_an_error_or_a_warning(caplog):
    with pytest.raises(DataLost, match=r"it is gone. To go on with what is left, set .*failOnData"):
        make(fail=True)[1].report("it is gone")
    with caplog.at_level(logging.WARNING):
        make(fail=False)[1].report("it is gone")
    assert "it is gone; going on with what is left" in caplog.text
