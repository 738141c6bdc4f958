from dataclasses import replace

import pytest

from dagster_sparkscale.observe.state import last_change
from dagster_sparkscale.state.plan import AT_LEAST, ROWS_PER_SECOND
from dagster_sparkscale.state.plan import seconds_of_change as seconds
from tests.fakes import status
from tests.state.saying import change, kept_by


def test_rows_that_are_not_known_cost_nobody_knows_what():
    assert seconds(None) is None
    assert seconds(None, change(seconds={"rewriting": 10.0})) is None


def test_without_a_change_before_it_is_a_common_rate_and_what_each_takes():
    assert seconds(0) == AT_LEAST
    assert seconds(int(ROWS_PER_SECOND) * 30) == AT_LEAST + 30


def test_with_one_before_it_goes_by_its_rate_and_is_no_quicker_for_fewer_rows():
    before = change(rows=1000, seconds={"measuring": 2.0, "rewriting": 8.0})
    assert seconds(3000, before) == 30
    assert seconds(1000, before) == 10
    assert seconds(1, before) == 10


@pytest.mark.parametrize(
    "fields",
    [
        {"outcome": "undone"},
        {"outcome": "unchanged"},
        {"rows": None},
        {"rows": 0},
        {"seconds": None},
        {"seconds": {}},
    ],
)
def test_one_that_says_nothing_of_a_rate_does_not_count(fields):
    before = change(**{"rows": 10, "seconds": {"rewriting": 999.0}} | fields)
    assert seconds(100, before) == seconds(100)


def test_it_goes_by_the_last_change_of_the_same_way():
    in_place = change(way="in place", rows=1000, seconds={"rewriting": 10.4})
    beside = replace(in_place, way="beside the stream", seconds={"replaying": 2.6})
    failed = replace(in_place, outcome="undone", seconds={"rewriting": 99.0})
    told = status(reconfigurations=(in_place, beside, failed), queries=(kept_by(),))
    assert last_change(told, in_place.query) == failed
    assert last_change(told, in_place.query, "in place") == in_place
    assert last_change(told, in_place.query, "beside the stream") == beside
    assert last_change(told, in_place.query, "restart") is None
