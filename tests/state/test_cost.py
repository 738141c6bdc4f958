from dataclasses import replace

import pytest

from dagster_sparkscale.observe.state import last_change
from dagster_sparkscale.observe.status import Reconfiguration
from dagster_sparkscale.state.cost import (
    AT_LEAST,
    AT_LEAST_IN_PLACE,
    ROWS_PER_SECOND,
    STORE,
    Stores,
    seconds_of_change,
)
from tests.fakes import status
from tests.state.saying import change, kept_by


def seconds(rows: int | None, earlier: Reconfiguration | None = None) -> float | None:
    """By rows alone: of the stores nothing is known."""
    return seconds_of_change(rows, 4, 8, Stores(), earlier)


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


@pytest.mark.parametrize(
    ("way", "opened"), [("restart", 3), ("in place", 3), ("beside the stream", 2)]
)
def test_each_store_costs_however_few_rows_it_has(way, opened):
    one = Stores.of(["stateStoreSave"], 2)
    assert one.seconds(4, 8, way) == pytest.approx((4 + opened * 8) * STORE / 2)
    assert Stores.of(["dedupe"] * 2, 2).seconds(4, 8, way) == 2 * one.seconds(4, 8, way)
    assert Stores.of(["symmetricHashJoin"], 2).seconds(4, 8, way) == 4 * one.seconds(4, 8, way)
    assert Stores.of((), 2) == one, "its operators are not known"
    assert Stores.of((), 0).seconds(4, 8, way) == 0.0, "its executors are not known"


def test_a_thousand_partitions_take_minutes_on_four_cores():
    found = seconds_of_change(1_000_000, 200, 1000, Stores(4), None, "in place")
    assert found == pytest.approx(AT_LEAST_IN_PLACE + 4 + 120)


def test_an_earlier_change_has_opened_stores_as_well():
    """Those that there are more of now come on top of what it took."""
    before = change(rows=1000, seconds={"rewriting": 9.0})  # 4 -> 8
    stores = Stores(1)
    assert seconds_of_change(1000, 4, 8, stores, before) == 9
    assert seconds_of_change(1000, 8, 2, stores, before) == 9
    more = stores.seconds(8, 64, "restart") - stores.seconds(4, 8, "restart")
    assert seconds_of_change(1000, 8, 64, stores, before) == pytest.approx(9 + more)
