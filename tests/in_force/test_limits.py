"""Which limits are in force, who set each, since when and until when."""

from dataclasses import replace
from typing import Any

import pytest

from dagster_sparkscale.clusters.records.store import Limited, Record, Tuning
from dagster_sparkscale.declare.backpressure import BackpressurePolicy
from dagster_sparkscale.declare.limits import SourceLimits, StreamingLimits
from dagster_sparkscale.in_force.limits import (
    attributed,
    live,
    read_once,
    receivers,
    set_by_a_person,
    tuned_rates,
)
from dagster_sparkscale.in_force.receiver_counts import changed
from dagster_sparkscale.in_force.tuned import declared_limits
from dagster_sparkscale.observe.evaluation import Evaluation
from dagster_sparkscale.observe.status import Limit
from tests.fakes import dstream, status, structured

CLICKS = structured(limits={"clicks": SourceLimits(max_offsets_per_trigger=1000)})
OPTION = "spark.sparkscale.options.clicks.maxOffsetsPerTrigger"
ORDERS = dstream(receivers=2, limits=StreamingLimits(max_rate=5000))
MAX = "spark.streaming.receiver.maxRate"
LIVE = structured(backpressure=BackpressurePolicy(max_rate=5000))
UNTIL_PUT_BACK = "another is declared, or it is put back (sparkscale retune --put-back)"


def tuned(stream: Any, settings: dict[str, str] | None = None, **fields: Any) -> Record:
    made = Tuning(settings or {}, by="run 1", at=60.0, declared=declared_limits(stream), **fields)
    rates = {source: {"maxRate": rate} for source, rate in made.rates.items()}
    return replace(Record.new("x"), tuning=made, rates=rates or None)


def by_hand(**rates: dict[str, float]) -> Record:
    return replace(
        Record.new("x"),
        rates=rates,
        limited_at=120.0,
        limited=dict.fromkeys(rates, Limited("set_limits run 2", 120.0)),
    )


def at_limit(by: str, **fields: Any) -> Evaluation:
    return Evaluation(window=60.0, throttled="q", throttled_by=by, **fields)


class TestReadOnce:
    def test_what_is_declared_until_another_is(self) -> None:
        found = read_once(CLICKS, Record.new("x"))["clicks.maxOffsetsPerTrigger"]
        assert (found.value, found.by, found.in_words) == (1000, "declared", "")
        assert read_once(structured(), Record.new("x")) == {}

    def test_what_was_tuned_and_who_did(self) -> None:
        found = read_once(CLICKS, tuned(CLICKS, {OPTION: "77"}))["clicks.maxOffsetsPerTrigger"]
        assert (found.value, found.by, found.who, found.since) == (77, "tuned", "run 1", 60)
        assert found.in_words == f"by run 1 since 1970-01-01 00:01 UTC, until {UNTIL_PUT_BACK}"
        other = structured(limits={"clicks": SourceLimits(max_offsets_per_trigger=1001)})
        now = read_once(other, tuned(CLICKS, {OPTION: "77"}))["clicks.maxOffsetsPerTrigger"]
        assert (now.value, now.by) == (1001, "declared"), "another declaration wins"

    def test_a_person_may_have_tuned_it(self) -> None:
        found = read_once(ORDERS, tuned(ORDERS, {MAX: "9"}, by_hand=True))
        assert (found[MAX].value, found[MAX].by) == (9, "person")
        first = found["spark.streaming.backpressure.initialRate"]
        assert (first.value, first.by) == (None, "declared")


class TestLive:
    def test_a_person_s(self) -> None:
        record = by_hand(a={"maxRate": 50.0}, b={"maxRecordsPerTrigger": 7})
        found = live(record)
        assert {name: each.value for name, each in found.items()} == {"a": 50, "b": None}
        assert set_by_a_person(record) == found and tuned_rates(record) == {}
        assert [each.number for each in found.values()] == ["50", "7 records a batch"]
        assert found["a"].in_words == (
            "by set_limits run 2 since 1970-01-01 00:02 UTC, until it is taken away (sparkscale "
            "limits --none)"
        )

    def test_what_was_tuned_is_so_until_somebody_sets_another(self) -> None:
        record = tuned(LIVE, rates={"a": 900.0, "b": 900.0})
        assert {each.by for each in live(record).values()} == {"tuned"}
        assert set_by_a_person(record) == {}
        for other in ({"maxRate": 901.0}, {"maxRate": 900.0, "maxRecordsPerTrigger": 3}):
            now = replace(record, rates={**(record.rates or {}), "a": other})
            assert list(set_by_a_person(now)) == ["a"] and tuned_rates(now) == {"b": 900}
        assert tuned_rates(replace(record, rates=None)) == {}


class TestReceivers:
    def test_the_record_s_number_before_the_declared_one(self) -> None:
        assert receivers(ORDERS, Record.new("x")) == 2
        assert receivers(ORDERS, replace(Record.new("x"), receivers=6)) == 6
        assert receivers(structured(), Record.new("x")) == 0

    def test_new_ones_get_the_lowest_limit_that_each_has_by_its_name(self) -> None:
        before = by_hand(**{"receiver-0": {"maxRate": 50.0}, "receiver-1": {"maxRate": 40.0}})
        now = changed(replace(before, receivers=2), ORDERS, 4)
        limits = {name: each["maxRate"] for name, each in (now.rates or {}).items()}
        assert limits == {"receiver-0": 50, "receiver-1": 40, "receiver-2": 40, "receiver-3": 40}
        assert len(set_by_a_person(now)) == 4
        fewer = changed(replace(before, receivers=2), ORDERS, 1)
        assert fewer.rates == before.rates, "they are there when it comes back"

    def test_also_those_that_were_tuned(self) -> None:
        before = tuned(LIVE, rates={"receiver-0": 9.0, "receiver-1": 9.0})
        now = changed(replace(before, receivers=2), ORDERS, 3)
        assert tuned_rates(now) == {f"receiver-{number}": 9.0 for number in range(3)}

    @pytest.mark.parametrize("names", [(), ("*",), ("receiver-0",), ("receiver-0", "receiver-2")])
    def test_not_where_one_of_those_before_is_free(self, names: tuple[str, ...]) -> None:
        before = replace(by_hand(**{name: {"maxRate": 5.0} for name in names}), receivers=2)
        assert changed(before, ORDERS, 4).rates == before.rates


class TestWhoBoundsTheInput:
    LIMITS = (Limit("a", query="q", rate=50, by="set"), Limit("b", query="other", by="estimator"))

    def told(self, stream: Any, record: Record | None, by: str) -> tuple[str | None, str]:
        found = attributed(stream, record, status(limits=self.LIMITS), at_limit(by))
        return found.throttled_by, found.throttled_who.partition(",")[0]

    def test_a_person(self) -> None:
        who = "by set_limits run 2 since 1970-01-01 00:02 UTC"
        assert self.told(LIVE, by_hand(a={"maxRate": 50.0}), "set") == ("set", who)
        assert self.told(LIVE, by_hand(**{"*": {"maxRate": 50.0}}), "set") == ("set", who)

    def test_each_of_two_people_who_bound_one_query(self) -> None:
        """Whoever raises the one limit has to know of the other."""
        record = by_hand(a={"maxRate": 7.0}, **{"*": {"maxRate": 40.0}})
        other = Limited("set_limits run 3", 180.0)
        record = replace(record, limited={**record.limited, "*": other})
        limits = tuple(Limit(name, query="q", rate=9, by="set") for name in "abc")
        found = attributed(LIVE, record, status(limits=limits), at_limit("set"))
        assert found.throttled_by == "set"
        assert [each.partition(" since")[0] for each in found.throttled_who.split("; ")] == [
            "by set_limits run 2",
            "by set_limits run 3",
        ]

    def test_a_retuning(self) -> None:
        who = "by run 1 since 1970-01-01 00:01 UTC"
        assert self.told(LIVE, tuned(LIVE, rates={"a": 50.0}), "set") == ("tuned", who)
        assert self.told(CLICKS, tuned(CLICKS, {OPTION: "77"}), "source") == ("tuned", who)
        assert self.told(ORDERS, tuned(ORDERS, {MAX: "9"}), "source") == ("tuned", who)
        lower = declared_limits(structured(backpressure=BackpressurePolicy(max_rate=900)))
        assert self.told(LIVE, tuned(LIVE, lower), "max_rate") == ("tuned", who)
        assert self.told(LIVE, tuned(LIVE, lower, by_hand=True), "max_rate") == ("set", who)

    @pytest.mark.parametrize("by", ["estimator", "max_rate", "source", "start"])
    def test_the_declaration_or_an_estimator(self, by: str) -> None:
        for stream in (LIVE, CLICKS, ORDERS):
            assert self.told(stream, Record.new("x"), by) == (by, "")
        assert self.told(LIVE, None, by) == (by, "")

    def test_a_minute_under_a_person_s_limit_says_so_whether_or_not_it_binds(self) -> None:
        told = status(limits=self.LIMITS)
        seen = Evaluation(window=60.0)
        assert attributed(LIVE, by_hand(a={"maxRate": 50.0}), told, seen).limit_by == "person"
        assert attributed(LIVE, by_hand(b={"maxRate": 50.0}), told, seen).limit_by is None
        assert attributed(LIVE, tuned(LIVE, rates={"a": 50.0}), told, seen).limit_by is None
