"""Events are OpenLineage's, by its own schema, and the same run has the same id wherever."""

import math
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.driver.lineage.datasets import Dataset
from dagster_sparkscale.driver.lineage.events import run_event, run_id
from dagster_sparkscale.driver.lineage.plan import LineagePlan, plan_of, with_version
from tests.driver.lineage.receiving import check

PLAN = LineagePlan("http://lineage/api/v1/lineage", "prod", "orders")
KINDS = ["START", "RUNNING", "COMPLETE", "FAIL", "ABORT"]
NAMES = st.text(min_size=1, max_size=30)
DATASETS = st.lists(st.builds(Dataset, NAMES, NAMES), max_size=3)
PLANS = st.builds(
    LineagePlan,
    url=NAMES,
    namespace=NAMES,
    job=NAMES,
    every=st.integers(1, 10**6).map(float),
    api_key_env=st.none() | NAMES,
    api_key_file=st.none() | NAMES,
    inputs=DATASETS.map(tuple),
    outputs=DATASETS.map(tuple),
)


@given(
    *(PLANS, st.sampled_from(KINDS), st.floats(0, 4e9), DATASETS, DATASETS),
    *(st.none() | NAMES, st.none() | NAMES),
)
def test_every_event_is_one_by_the_schema(
    plan: LineagePlan,
    kind: str,
    at: float,
    inputs: list[Dataset],
    outputs: list[Dataset],
    spark: str | None,
    error: str | None,
):
    run = run_id("record", 3)
    event = run_event(plan, run, kind, at, inputs=inputs, outputs=outputs, spark=spark, error=error)
    check(event)
    assert (event["eventType"], event["run"]["runId"]) == (kind, run)
    for said, declared, found in (
        (event["inputs"], plan.inputs, inputs),
        (event["outputs"], plan.outputs, outputs),
    ):
        named = [(each["namespace"], each["name"]) for each in said]
        assert set(named) == {*declared, *found} and len(named) == len(set(named))


def test_an_event_names_no_private_host():
    text = str(run_event(PLAN, run_id("r", 1), "START", 0.0, spark="4.3.0"))
    assert "http://lineage" not in text
    assert "'producer': 'pkg:pypi/dagster-sparkscale'" in text
    assert "'eventTime': '1970-01-01T00:00:00.000+00:00'" in text


@given(NAMES, st.integers(0, 10**9), NAMES, st.integers(0, 10**9))
def test_a_run_is_one_driver(record: str, epoch: int, other: str, later: int):
    same = (record, epoch) == (other, later)
    assert (run_id(record, epoch) == run_id(other, later)) is same
    assert uuid.UUID(run_id(record, epoch)).version == 5


def test_the_id_of_a_run_stays_what_it_is():
    assert run_id("5e1c0ffee5e1c0ff", 7) == "0d295d3f-6514-51a1-ab55-d7887ca808ba"


@given(PLANS)
def test_a_plan_travels_as_texts_among_others(plan: LineagePlan):
    texts = plan.as_texts()
    assert plan_of({"program": "a.py", **texts}) == plan
    known = plan_of(with_version(texts, "0.1.0"))
    assert known is not None and known.version == "0.1.0"
    event = run_event(known, run_id("r", 1), "START", 0.0)
    assert event["producer"] == "pkg:pypi/dagster-sparkscale@0.1.0"


def test_there_may_be_no_plan_or_half_of_one():
    assert plan_of({"program": "a.py"}) is None
    texts = PLAN.as_texts()
    del texts["lineage.job"]
    with pytest.raises(ValueError, match="no plan of lineage"):
        plan_of(texts)
    assert math.isclose(plan_of(PLAN.as_texts()).every, 600)
