"""The values that can be tuned, out of Spark settings and into them."""

import json

import pytest

from dagster_sparkscale.backpressure.tunables import option, with_values
from dagster_sparkscale.declare.backpressure import BackpressurePolicy
from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.declare.limits import SourceLimits, StreamingLimits
from dagster_sparkscale.driver.settings import BACKPRESSURE
from dagster_sparkscale.in_force.limits import values_of as values
from dagster_sparkscale.in_force.tuned import declared_limits
from tests.fakes import dstream, structured

CLICKS = structured(
    limits={
        "clicks": SourceLimits(
            max_offsets_per_trigger=1000, min_offsets_per_trigger=10, max_trigger_delay="2 min"
        ),
        "orders": SourceLimits(options={"maxFilesPerTrigger": 5}),
    }
)
POLICY = structured(backpressure=BackpressurePolicy(min_rate=50, initial_rate=80))
RECEIVERS = dstream(receivers=2, limits=StreamingLimits(max_rate=500))
ENABLED = dstream(limits=StreamingLimits(backpressure_enabled=True, initial_rate=7))
OPTION = "spark.sparkscale.options.clicks."


def told(stream):
    return values(stream, declared_limits(stream))


def changed(stream, **wanted):
    return with_values(stream, told(stream), wanted)


def test_options_of_each_source_that_declares_some():
    assert told(CLICKS) == {
        "clicks.maxOffsetsPerTrigger": 1000,
        "clicks.minOffsetsPerTrigger": 10,
        "clicks.maxTriggerDelay": 120,
        "orders.maxOffsetsPerTrigger": None,
        "orders.minOffsetsPerTrigger": None,
        "orders.maxTriggerDelay": None,
    }


def test_rates_of_a_policy():
    rates = {"min_rate": 50, "initial_rate": 80, "max_rate": None}
    assert told(POLICY) == {f"backpressure.{name}": value for name, value in rates.items()}


def test_settings_of_receivers_and_such_as_are_declared():
    assert told(RECEIVERS) == {
        "spark.streaming.receiver.maxRate": 500,
        "spark.streaming.backpressure.initialRate": None,
    }
    assert told(ENABLED) == {"spark.streaming.backpressure.initialRate": 7}


def test_beside_a_policy_receivers_begin_with_what_that_says():
    both = dstream(receivers=1, limits=StreamingLimits(), backpressure=BackpressurePolicy())
    assert sorted(told(both)) == [
        *("backpressure.initial_rate", "backpressure.max_rate", "backpressure.min_rate"),
        "spark.streaming.receiver.maxRate",
    ]


def test_a_stream_without_limits_has_none():
    assert told(structured()) == told(dstream()) == {}


def test_what_was_tuned_is_told_and_not_what_is_declared():
    settings = {**declared_limits(CLICKS), f"{OPTION}maxOffsetsPerTrigger": "77"}
    assert values(CLICKS, settings)["clicks.maxOffsetsPerTrigger"] == 77
    tuned = structured(backpressure=BackpressurePolicy(min_rate=7))
    assert values(POLICY, declared_limits(tuned))["backpressure.min_rate"] == 7


@pytest.mark.parametrize("text", ["lots", "{}x"])
def test_what_is_no_number_is_not_known(text):
    settings = {f"{OPTION}maxOffsetsPerTrigger": text, BACKPRESSURE: text}
    assert values(CLICKS, settings)["clicks.maxOffsetsPerTrigger"] is None
    assert values(POLICY, settings)["backpressure.min_rate"] == 50, "as declared"


def test_other_values_become_settings_and_the_rest_stays():
    found = changed(CLICKS, **{"clicks.maxOffsetsPerTrigger": 2000, "clicks.maxTriggerDelay": 1.5})
    assert found == {
        **declared_limits(CLICKS),
        f"{OPTION}maxOffsetsPerTrigger": "2000",
        f"{OPTION}maxTriggerDelay": "1500ms",
    }
    found = changed(POLICY, **{"backpressure.max_rate": 200.5})
    assert json.loads(found[BACKPRESSURE])["max_rate"] == 200.5
    assert json.loads(found[BACKPRESSURE])["initial_rate"] == 80
    found = changed(RECEIVERS, **{"spark.streaming.backpressure.initialRate": 100.0})
    assert found == {
        "spark.streaming.receiver.maxRate": "500",
        "spark.streaming.backpressure.initialRate": "100",
    }


def test_what_receivers_begin_with_follows_the_policy():
    stream = dstream(receivers=1, backpressure=BackpressurePolicy(initial_rate=200))
    found = changed(stream, **{"backpressure.initial_rate": 300})
    assert found["spark.streaming.backpressure.initialRate"] == "300"


def test_what_was_tuned_before_stays():
    now = {**told(CLICKS), "clicks.minOffsetsPerTrigger": 20.0}
    found = with_values(CLICKS, now, {"clicks.maxOffsetsPerTrigger": 2000})
    assert found[f"{OPTION}minOffsetsPerTrigger"] == "20"


@pytest.mark.parametrize(
    ("stream", "wanted", "why"),
    [
        (
            CLICKS,
            {"clikcs.maxOffsetsPerTrigger": 1},
            "clikcs.maxOffsetsPerTrigger: 'clicks' has no",
        ),
        (structured(), {"a.b": 1}, "a.b: 'clicks' has no such limit; it has none: it declares no"),
        (CLICKS, {"clicks.maxOffsetsPerTrigger": 0}, "= 0: must be above 0"),
        (CLICKS, {"clicks.maxOffsetsPerTrigger": -1}, "= -1: must be above 0"),
        (CLICKS, {"clicks.maxOffsetsPerTrigger": float("nan")}, "= nan: must be above 0"),
        (CLICKS, {"clicks.maxOffsetsPerTrigger": float("inf")}, "= inf: must be above 0"),
        (CLICKS, {"clicks.maxOffsetsPerTrigger": True}, "= True: must be a number"),
        (CLICKS, {"clicks.maxOffsetsPerTrigger": "9"}, "= '9': must be a number"),
        (CLICKS, {"clicks.maxOffsetsPerTrigger": 10.5}, "= 10.5: must be a whole number"),
        (CLICKS, {"clicks.maxOffsetsPerTrigger": 9}, "min_offsets_per_trigger = 10: must be at"),
        (CLICKS, {"orders.minOffsetsPerTrigger": 9}, "must have max_offsets_per_trigger beside"),
        (POLICY, {"backpressure.max_rate": 79}, "initial_rate = 80: must be at most max_rate"),
        (POLICY, {"backpressure.min_rate": 0.01}, "must be at least 0.1, which is one record"),
        (RECEIVERS, {"spark.streaming.receiver.maxRate": 2.5}, "= 2.5: must be a whole number"),
    ],
)
def test_what_makes_no_sense_is_refused(stream, wanted, why):
    with pytest.raises(DeclarationError) as error:
        changed(stream, **wanted)
    assert why in str(error.value)


def test_another_option_of_the_same_source():
    assert option("a.b.maxOffsetsPerTrigger", "x") == "a.b.x"
