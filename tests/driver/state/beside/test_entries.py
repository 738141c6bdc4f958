"""Entries of the logs as a change writes them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.driver.state import layout
from dagster_sparkscale.driver.state.beside import entries
from tests.driver.state.disk import entry


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_nothing_but_the_partitions_is_another(before, after):
    made = entries.with_partitions(entry(before), after)
    assert layout.bound(made, "offsets").partitions == after
    assert entries.same(entries.with_partitions(made, before), entry(before))
    assert entries.same(made, entry(after))
    assert made.splitlines()[2:] == entry(before).splitlines()[2:]


@pytest.mark.parametrize("text", ["", "v1", "v1\n{}", "v1\n\n-", "v1\n{", '{"conf":{}}\n{}'])
def test_what_is_no_entry_is_refused(text):
    with pytest.raises(layout.Unreadable):
        entries.with_partitions(text, 8)


def test_entries_are_the_same_whatever_the_order_of_fields():
    assert entries.same('v1\n{"a":1,"b":2}\n{"at":7}', 'v1\n{"b":2,"a":1}\n{"at":7}\n')
    assert not entries.same('v1\n{"a":1}', 'v1\n{"a":2}')
    assert not entries.same("v1\n{}", "v2\n{}")


@pytest.mark.parametrize(
    ("mark", "alike", "alike_once_more"),
    [
        (3, False, False),
        (4, True, True),
        (7, True, False),
        (9, True, False),
        (10, False, False),
        ("7", False, False),
        (None, False, False),
    ],
)
def test_a_watermark_may_move_less_far_and_where_there_are_no_rows_it_does_not_move(
    mark, alike, alike_once_more
):
    entry, commit = 'v1\n{"batchWatermarkMs":4}', _commit(9)
    for once_more, expected in ((False, alike), (True, alike_once_more)):
        assert entries.ended_alike(_commit(mark), commit, entry, once_more) == expected
    assert not entries.ended_alike(_commit(4, ids={"0": 1}), commit, entry, once_more=False)


def _commit(mark, ids=None):
    told = {"stateUniqueIds": ids, "nextBatchWatermarkMs": mark}
    return f"v1\n{json.dumps(told)}"


@pytest.mark.parametrize("other", ["v1", "v1\n{", "v1\n[]", "v1\n{}"])
def test_where_no_watermark_can_be_read_both_must_say_the_same(other):
    entry = 'v1\n{"batchWatermarkMs":4}'
    for once_more in (False, True):
        assert entries.ended_alike(_commit(9), _commit(9), other, once_more)
        assert not entries.ended_alike(_commit(4), _commit(9), other, once_more)
        assert not entries.ended_alike(other, _commit(9), entry, once_more)
    assert entries.ended_alike(other, other, entry, once_more=False)


@pytest.mark.parametrize(
    ("told", "watermarked"),
    [
        ({"batchWatermarkMs": 0}, False),
        ({"batchWatermarkMs": 5}, True),
        ({"nextBatchWatermarkMs": 5}, True),
        ({}, False),
    ],
)
def test_a_watermark_is_seen_in_either_log(told, watermarked):
    assert entries.watermarked(["v1\n{}", f"v1\n{json.dumps(told)}"]) == watermarked


@pytest.mark.parametrize("text", ["v1", "v1\n{", "v1\n[]"])
def test_what_can_t_be_read_may_have_one(text):
    assert entries.watermarked([text])
