"""What a driver is told of backpressure, and what can't be."""

import json

import pytest

from dagster_sparkscale.declare.backpressure import BackpressurePolicy
from dagster_sparkscale.driver.backpressure.plan import BadEstimatorPlan, EstimatorPlan, plan_of

FULL = EstimatorPlan("pid", 500.0, 200.0, 9000.0, 0.8, 1.5, 0.1, 0.2, ("clicks", "receiver-0"))


@pytest.mark.parametrize("plan", [EstimatorPlan(), FULL])
def test_a_plan_comes_back_from_its_text(plan):
    assert plan_of(plan.to_json()) == plan


def test_its_fields_and_defaults_are_those_of_the_declaration():
    assert json.loads(EstimatorPlan().to_json()) == json.loads(
        BackpressurePolicy().model_dump_json()
    )
    policy = BackpressurePolicy(estimator="pid", max_rate=5000, sources=("clicks",))
    assert plan_of(policy.model_dump_json()) == EstimatorPlan(
        "pid", max_rate=5000, sources=("clicks",)
    )


def test_what_is_missing_has_its_default_and_what_a_newer_release_says_is_passed_over():
    assert plan_of('{"max_rate": 300, "moon": "full"}') == EstimatorPlan(max_rate=300)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"estimator": "PID"}, 'estimator = "PID": must be work or pid'),
        ({"estimator": 7}, "estimator = 7: must be work or pid"),
        ({"estimator": []}, "estimator = []: must be work or pid"),
        ({"initial_rate": 0}, "initial_rate = 0: must be records per second above 0"),
        ({"min_rate": None}, "min_rate = null: must be records per second above 0"),
        ({"min_rate": "100"}, 'min_rate = "100": must be records per second above 0'),
        ({"min_rate": True}, "min_rate = true: must be records per second above 0"),
        ({"max_rate": -5}, "max_rate = -5: must be records per second above 0"),
        ({"max_rate": 1e13}, "max_rate = 10000000000000.0: must be records per second above 0"),
        ({"max_rate": float("inf")}, "max_rate = Infinity: must be records per second above 0"),
        ({"max_rate": 10**400}, f"max_rate = 1{39 * '0'}: must be records per second above 0"),
        ({"min_rate": float("nan")}, "min_rate = NaN: must be records per second above 0"),
        ({"target_ratio": 0}, "target_ratio = 0: must be a number above 0, and at most 1"),
        ({"target_ratio": 1.1}, "target_ratio = 1.1: must be a number above 0, and at most 1"),
        ({"integral": -0.1}, "integral = -0.1: must be a number of at least 0"),
        ({"proportional": None}, "proportional = null: must be a number of at least 0"),
        ({"derivative": "no"}, 'derivative = "no": must be a number of at least 0'),
        ({"sources": "clicks"}, 'sources = "clicks": must be a list of names'),
        ({"sources": [1]}, "sources = [1]: must be a list of names"),
        ({"sources": [""]}, 'sources = [""]: must be a list of names'),
        ({"max_rate": 99}, "max_rate = 99: must be at least min_rate = 100"),
        ({"initial_rate": 99}, "initial_rate = 99: must be at least min_rate = 100"),
        (
            {"initial_rate": 300, "max_rate": 200},
            "initial_rate = 300: must be at most max_rate = 200",
        ),
    ],
)
def test_what_can_t_be_is_told_by_field_value_and_what_is_right(changed, told):
    with pytest.raises(BadEstimatorPlan) as refused:
        plan_of(json.dumps(changed))
    assert str(refused.value) == told


@pytest.mark.parametrize(("text", "told"), [("", "no JSON"), ("{" * 5000, "no JSON")])
def test_what_is_no_json_is_told(text, told):
    with pytest.raises(BadEstimatorPlan, match=told):
        plan_of(text)


@pytest.mark.parametrize("text", ["[]", "null", "7"])
def test_what_is_no_object_is_told(text):
    with pytest.raises(BadEstimatorPlan, match="must be an object"):
        plan_of(text)


def test_weights_of_nothing_and_rates_that_are_all_the_same_are_right():
    text = {"integral": 0, "min_rate": 5, "initial_rate": 5, "max_rate": 5, "target_ratio": 1}
    assert plan_of(json.dumps(text)) == EstimatorPlan("work", 5, 5, 5, 1, integral=0)


def test_a_source_begins_with_a_rate_unless_spark_s_estimator_is_given_none():
    assert EstimatorPlan().first_rate == 100
    assert EstimatorPlan(initial_rate=300).first_rate == 300
    assert EstimatorPlan(max_rate=900).first_rate == 100
    assert EstimatorPlan("pid").first_rate is None
    assert EstimatorPlan("pid", max_rate=900).first_rate == 900
    assert EstimatorPlan("pid", initial_rate=300, max_rate=900).first_rate == 300


def test_which_sources_it_is_about():
    assert EstimatorPlan().limits("anything")
    assert FULL.limits("clicks") and not FULL.limits("orders")


def test_rates_are_kept_within_bounds():
    assert [FULL.bounded(rate) for rate in (1, 200, 5000, 9000, 10_000)] == [
        *(200, 200, 5000, 9000, 9000)
    ]
    assert EstimatorPlan().bounded(1e11) == 1e11
