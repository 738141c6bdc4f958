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


def test_a_batch_that_moves_no_watermark_leaves_it_as_it_was():
    commit = 'v1\n{"nextBatchWatermarkMs":9,"stateUniqueIds":null}'
    mark = 'v1\n{"batchWatermarkMs":4}'
    made = entries.unmoved(commit, mark)
    assert entries.same(made, commit.replace("9", "4"))
    for other in ("v1", "v1\n{", "v1\n[]", "v1\n{}"):
        assert entries.unmoved(commit, other) == commit
    for other in ("v1\n[", "v1\n[]"):
        assert entries.unmoved(other, mark) == other


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
