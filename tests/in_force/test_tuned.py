"""What was tuned stands until something else is declared."""

import json
from dataclasses import replace

import pytest

from dagster_sparkscale.clusters.records.store import Record, Tuning
from dagster_sparkscale.declare.backpressure import BackpressurePolicy, Retune
from dagster_sparkscale.declare.limits import SourceLimits, StreamingLimits
from dagster_sparkscale.driver.settings import BACKPRESSURE
from dagster_sparkscale.in_force.tuned import (
    at_start,
    declared_limits,
    in_force,
    standing,
    without,
)
from tests.fakes import dstream, structured

OF = "spark.sparkscale.options."
CLICKS, ORDERS = f"{OF}clicks.maxOffsetsPerTrigger", f"{OF}orders.maxOffsetsPerTrigger"


def two(clicks: int = 1000, orders: int | None = 2000, **fields):
    limits = {"clicks": SourceLimits(max_offsets_per_trigger=clicks)}
    limits["orders"] = SourceLimits(max_offsets_per_trigger=orders)
    return structured(limits=limits, **fields)


def tuning(stream=None, **fields) -> Tuning:
    declared = declared_limits(two() if stream is None else stream)
    plain = {"settings": {CLICKS: "77", ORDERS: "88"}, "by": "somebody", "at": 5.0}
    return Tuning(**{**plain, "declared": declared, **fields})


def record(tuned: Tuning | None, **fields) -> Record:
    return replace(Record.new("r"), tuning=tuned, **fields)


def test_limits_that_are_declared_are_told_and_nothing_else():
    stream = two(spark_conf={"spark.task.cpus": "2"}, backpressure=BackpressurePolicy())
    assert sorted(declared_limits(stream)) == [BACKPRESSURE, CLICKS, ORDERS]
    assert declared_limits(structured()) == {}
    receivers = dstream(receivers=1, limits=StreamingLimits(max_rate=5))
    assert declared_limits(receivers) == {"spark.streaming.receiver.maxRate": "5"}


def test_what_was_tuned_wins():
    assert in_force(two(), tuning()) == {CLICKS: "77", ORDERS: "88"}
    assert in_force(two(), None) == {CLICKS: "1000", ORDERS: "2000"}
    assert in_force(two(), tuning(settings={})) == {CLICKS: "1000", ORDERS: "2000"}


def test_until_something_else_is_declared_of_the_same_source():
    assert in_force(two(clicks=1001), tuning()) == {CLICKS: "1001", ORDERS: "88"}
    assert in_force(two(orders=None), tuning()) == {CLICKS: "77"}


def test_also_another_limit_of_it():
    limits = {
        "clicks": SourceLimits(max_offsets_per_trigger=1000, min_offsets_per_trigger=500),
        "orders": SourceLimits(max_offsets_per_trigger=2000),
    }
    found = in_force(structured(limits=limits), tuning())
    assert (found[CLICKS], found[ORDERS]) == ("1000", "88")


def test_rates_stand_and_fall_together():
    before = dstream(receivers=1, limits=StreamingLimits(max_rate=500))
    tuned = tuning(before, settings={"spark.streaming.receiver.maxRate": "70"})
    assert standing(tuned, declared_limits(before)) == dict(tuned.settings)
    more = dstream(receivers=1, limits=StreamingLimits(max_rate=500, initial_rate=9))
    assert standing(tuned, declared_limits(more)) == {}


def test_a_policy_that_an_older_release_has_written_down_is_the_same():
    stream = structured(backpressure=BackpressurePolicy(min_rate=7))
    written = json.loads(declared_limits(stream)[BACKPRESSURE])
    del written["target_ratio"]
    old = {BACKPRESSURE: json.dumps({**written, "unheard_of": 5})}
    wanted = {BACKPRESSURE: json.dumps({**written, "max_rate": 77})}
    tuned = Tuning(wanted, "somebody", 1.0, declared=old)
    assert in_force(stream, tuned) == wanted
    assert in_force(structured(backpressure=BackpressurePolicy(min_rate=8)), tuned) != wanted
    assert in_force(stream, replace(tuned, declared={BACKPRESSURE: "{"})) != wanted
    assert in_force(structured(), tuned) == {}


class TestAtAStart:
    def test_what_stands_is_left_as_it_is(self):
        before = record(tuning(verify_at=9.0))
        assert at_start(before, two(), 100.0) == (before, ())

    def test_what_does_not_is_dropped_and_told(self):
        before = record(tuning(verify_at=9.0, rates={"clicks": 5.0}))
        after, lines = at_start(before, two(clicks=1001), 100.0)
        assert lines == (
            f"{CLICKS} = 77, tuned by somebody, does not stand any more: what is declared of it "
            "has changed",
        )
        assert after.tuning == Tuning(
            {ORDERS: "88"},
            by="somebody (as far as it stands beside what is declared since)",
            at=100.0,
            by_hand=True,
            declared=declared_limits(two(clicks=1001)),
            rates={"clicks": 5.0},
        )

    def test_who_tuned_what_is_left_stays_known_over_further_changes(self):
        after, _ = at_start(record(tuning()), two(clicks=1001), 100.0)
        again, _ = at_start(after, two(clicks=1002), 200.0)
        assert again.tuning is not None and after.tuning is not None
        assert (again.tuning.by, again.tuning.settings) == (after.tuning.by, {ORDERS: "88"})

    def test_another_policy_ends_the_live_limits_that_were_tuned(self):
        stream = structured(backpressure=BackpressurePolicy())
        tuned = tuning(stream, settings={}, rates={"clicks": 5.0})
        rates = {"clicks": {"maxRate": 5.0, "maxSpanPerTrigger": 9.0}, "orders": {"maxRate": 7.0}}
        before = record(tuned, rates=rates)
        assert at_start(before, stream, 100.0) == (before, ())
        other = structured(backpressure=BackpressurePolicy(min_rate=7))
        after, lines = at_start(before, other, 100.0)
        assert after.rates == {"clicks": {"maxSpanPerTrigger": 9.0}, "orders": {"maxRate": 7.0}}
        assert after.tuning is not None and after.tuning.rates == {} and lines == ()

    def test_a_stream_that_is_retuned_has_its_declaration_noted(self):
        stream = two(retune=Retune())
        after, lines = at_start(record(None), stream, 100.0)
        noted = Tuning({}, by="", at=100.0, declared=declared_limits(stream))
        assert (after.tuning, lines) == (noted, ())
        assert at_start(after, stream, 200.0) == (after, ())
        changed, lines = at_start(after, two(clicks=1001, retune=Retune()), 200.0)
        assert changed.tuning is not None
        assert (changed.tuning.by_hand, changed.tuning.at, lines) == (True, 200.0, ())

    def test_any_other_is_left_alone(self):
        assert at_start(record(None), two(), 100.0) == (record(None), ())


@pytest.mark.parametrize(
    ("rates", "left"),
    [
        (None, None),
        ({}, {}),
        ({"a": {"maxRate": 5.0}}, {}),
        ({"a": {"maxRate": 6.0}}, {"a": {"maxRate": 6.0}}),
        ({"b": {"maxRate": 5.0}}, {"b": {"maxRate": 5.0}}),
        ({"a": {"maxRate": 5.0, "x": 5.0}}, {"a": {"x": 5.0}}),
    ],
)
def test_a_live_limit_that_somebody_has_set_since_stays(rates, left):
    assert without(rates, {"a": 5.0}) == left
