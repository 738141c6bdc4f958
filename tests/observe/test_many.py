"""The minutes of many streams as one."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.observe.many import joined, parted
from dagster_sparkscale.observe.minutes import Minute, pack

a_minute = st.builds(
    Minute,
    at=st.integers(0, 10**10),
    state=st.sampled_from(["running", "failed"]),
    epoch=st.none() | st.integers(1, 5),
    ratio=st.none() | st.floats(0, 1e6),
    decision=st.none() | st.text(max_size=5),
)
packs = st.lists(st.lists(a_minute, max_size=5).map(lambda seen: pack(seen) if seen else {}))


@given(packs)
def test_what_was_joined_can_be_parted_again(each):
    assert parted(json.loads(json.dumps(joined(each)))) == each


def test_what_all_have_in_common_stands_there_once():
    each = [pack([Minute(60, "running", 1, ratio=n / 10)]) for n in range(100)]
    whole = joined(each)
    assert (whole["state"], whole["epoch"], len(whole["ratio"])) == ("running", 1, 100)


def test_of_an_older_release_a_column_that_is_not_there_says_what_it_says_by_default():
    whole = joined([{"at": [60], "mood": ["good"]}, pack([Minute(60, "running", 1)])])
    assert parted(whole) == [{"at": [60], "state": "unknown"}, pack([Minute(60, "running", 1)])]


@pytest.mark.parametrize(
    "whole",
    [
        {},
        {"counts": [1]},
        {"counts": [2], "at": [60]},
        {"counts": [-1, 2], "at": [60]},
        {"counts": [True], "at": [60]},
        {"counts": 1, "at": [60]},
        {"counts": [1], "at": [60], "ratio": [1, 2]},
        {"counts": [1], "at": [60], "ratio": "high"},
    ],
)
def test_what_nobody_has_joined_is_refused(whole):
    with pytest.raises(ValueError):
        parted(whole)
