"""The policies that are tried for a recommendation."""

import re

import pytest

from dagster_sparkscale.advice.grid import DOWN, PRICES, UP, WINDOWS, policies_to_try
from dagster_sparkscale.advice.specs import in_python, named, policy_of, with_policy
from dagster_sparkscale.autoscale.ratio import RatioPolicy
from tests.advice.recorded import STREAM
from tests.docs.pages import ROOT

THRESHOLDS = len(UP) * len(DOWN) * len(WINDOWS)


def kinds(policy):
    tried = policies_to_try(with_policy(STREAM, policy))
    return {kind: [each for each in tried if each.startswith(kind)] for kind in ("capa", "ratio")}


def test_thresholds_windows_prices_and_numbers_of_executors_are_tried():
    tried = policies_to_try(STREAM)
    assert len(set(tried)) == len(tried) == THRESHOLDS + len(PRICES) + 8
    found = [named(each, STREAM).autoscale for each in tried]
    assert {each.max_executors for each in found} == {10, 15, 20}
    assert {each.min_executors for each in found} == {None, 2, 4}


def test_the_page_explains_each_price_that_is_tried():
    page = (ROOT / "docs" / "capacity.md").read_text()
    _, _, table = page.partition("| price |")
    rows = re.findall(r"^\| ([\d, ]+) \|", table.partition("\n\n")[0], re.MULTILINE)
    assert [int(price) for row in rows for price in row.split(",")] == list(PRICES)


@pytest.mark.parametrize(
    "policy",
    [
        RatioPolicy(max_executors=3, initial_executors=3),
        RatioPolicy(max_executors=1),
        RatioPolicy(),
    ],
)
def test_what_a_stream_can_not_have_is_not_tried(policy):
    stream = with_policy(STREAM, policy)
    tried = policies_to_try(stream)
    assert len(tried) >= THRESHOLDS + len(PRICES)
    for each in tried:
        assert named(each, stream).bounds.minimum >= 1


def test_a_window_shorter_than_the_interval_is_not_tried():
    found = kinds(RatioPolicy(max_executors=8, interval="20min"))
    assert len(found["ratio"]) == THRESHOLDS / 2


def test_a_stream_without_a_policy_is_tried_with_both():
    stream = named("fixed:executors=4", STREAM)
    tried = policies_to_try(stream)
    assert not any(each.startswith("declared") for each in tried)
    assert len(tried) >= THRESHOLDS + len(PRICES)


def test_no_field_is_declared_as_none():
    assert in_python(policy_of("ratio:scale_down_window=none", RatioPolicy(max_executors=3))) == (
        "RatioPolicy(max_executors=3)"
    )
