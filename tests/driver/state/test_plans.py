"""What a driver is told, and what can't be."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.driver.settings import KEY_GROUPS, PLAIN_HASH, PLAN
from dagster_sparkscale.driver.state.hook import declared
from dagster_sparkscale.driver.state.plans import BadStatePlan, StatePlan, misfit, plan_of

PLAN_OF_8 = StatePlan("run-1", 8, 64, queries=("counts", "sums"))


def test_a_plan_comes_back_from_its_text():
    assert plan_of(PLAN_OF_8.to_json()) == PLAN_OF_8


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("partitions", "8", "partitions = '8'"),
        ("partitions", True, "partitions = True"),
        ("partitions", 0, "must be 1 to 64"),
        ("partitions", 65, "must be 1 to 64"),
        ("plain_hash", "no", "plain_hash = 'no'"),
        ("id", None, "id = None"),
        ("queries", "counts", "queries = 'counts'"),
        ("queries", None, "queries = None"),
        ("queries", ["counts", 7], "must be names of queries"),
    ],
)
def test_what_is_no_plan_is_told(field, value, told):
    with pytest.raises(BadStatePlan, match=told):
        plan_of(json.dumps({**json.loads(PLAN_OF_8.to_json()), field: value}))


@pytest.mark.parametrize("text", ["", "[]", "null", '{"id": "x"}', "{" * 5000])
def test_what_can_t_be_read_is_told(text):
    with pytest.raises(BadStatePlan, match="can't be read"):
        plan_of(text)


@given(st.integers(1, 200), st.integers(1, 200))
def test_a_number_fits_where_each_key_group_stays_whole(partitions, key_groups):
    whole = partitions <= key_groups and all(
        (h % key_groups) % partitions == h % partitions for h in range(partitions * key_groups)
    )
    assert (misfit(partitions, key_groups, plain_hash=False) is None) == whole
    assert (misfit(partitions, key_groups, plain_hash=True) is None) == (partitions <= key_groups)


def test_what_the_settings_declare():
    told = declared({KEY_GROUPS: "64", PLAIN_HASH: "true", PLAN: PLAN_OF_8.to_json()})
    assert (told.key_groups, told.plain_hash, told.plan) == (64, True, PLAN_OF_8)
    assert declared({}).key_groups is None
    assert declared({KEY_GROUPS: "many"}).key_groups is None


def test_a_broken_plan_is_said_and_nothing_is_changed(capfd):
    assert declared({PLAN: "{}"}).plan is None
    assert "the plan can't be read" in capfd.readouterr().err
