"""What is to be changed, and how it gets into force."""

import json
from dataclasses import replace

import pytest

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.backpressure.advice import Recommendation
from dagster_sparkscale.backpressure.plan import by_hand, change, present, situation, way_back
from dagster_sparkscale.clusters.records.store import Record, Tuning
from dagster_sparkscale.declare.backpressure import BackpressurePolicy
from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.declare.limits import SourceLimits, StreamingLimits
from dagster_sparkscale.driver.settings import BACKPRESSURE
from dagster_sparkscale.in_force.limits import INITIAL_RATE, MAX_RATE, MIN_RATE, RECEIVER_INITIAL
from dagster_sparkscale.in_force.tuned import declared_limits
from dagster_sparkscale.observe.status import Limit, Query
from tests.fakes import dstream, status, structured

CLICKS = "clicks.maxOffsetsPerTrigger"
READ_ONCE = structured(limits={"clicks": SourceLimits(max_offsets_per_trigger=1000)})
POLICY = structured(backpressure=BackpressurePolicy(initial_rate=200, max_rate=1000))
TWO = status(limits=(Limit("a"), Limit("b")))


def record(**fields) -> Record:
    return replace(Record.new("r"), epoch=1, **fields)


def tuned(stream, rates=None, settings=None) -> Record:
    it = Tuning(settings or {}, "somebody", 1.0, declared=declared_limits(stream))
    live = {source: {"maxRate": rate} for source, rate in (rates or {}).items()}
    return record(tuning=replace(it, rates=rates or {}), rates=live)


def changed(stream, wanted, kept=None, said=TWO, rates=None):
    now = present(stream, record() if kept is None else kept)
    found = tuple(Recommendation(k, now.values.get(k), v, "why", "what") for k, v in wanted.items())
    return change(stream, now, found, said, rates or {})


def plan(found) -> dict:
    return json.loads(found.settings[BACKPRESSURE])


class TestPresent:
    def test_what_is_declared_and_what_was_tuned(self):
        assert present(READ_ONCE, record()).values[CLICKS] == 1000
        setting = "spark.sparkscale.options.clicks.maxOffsetsPerTrigger"
        kept = tuned(READ_ONCE, settings={setting: "77"})
        assert present(READ_ONCE, kept).values[CLICKS] == 77

    @pytest.mark.parametrize(
        ("most", "rates", "in_force"),
        [(1000, {}, 1000), (1000, {"a": 300.0}, 300), (200, {"a": 300.0}, 200)],
    )
    def test_the_smallest_rate_is_in_force(self, most, rates, in_force):
        stream = structured(backpressure=BackpressurePolicy(max_rate=most))
        now = present(stream, tuned(stream, rates))
        assert now.values[MAX_RATE] == in_force
        assert now.rates == rates

    def test_without_a_declared_one_it_is_the_live_one(self):
        stream = structured(backpressure=BackpressurePolicy())
        assert present(stream, tuned(stream, {"a": 300.0})).values[MAX_RATE] == 300


class TestSituation:
    def test_of_a_stream_with_a_policy(self):
        stream = structured(
            autoscale=RatioPolicy(max_executors=8, initial_executors=3, max_lag=60),
            backpressure=BackpressurePolicy(),
        )
        queries = (Query("a", True), Query("b", True), Query("c", False))
        said = replace(TWO, queries=queries)
        found = situation(stream, record(executors=5), present(stream, record()), said)
        assert (found.interval, found.most, found.queries, found.max_lag) == (10, 8, 2, 60)
        assert (found.rated, found.receivers) == (2, 0)
        assert found.start == 5
        assert found.scaled and found.values == present(stream, record()).values
        from_declared = record(executors=5, declared={"initial_executors": "4"})
        found = situation(stream, from_declared, present(stream, record()), said)
        assert found.start == 3, "another number is declared by now"

    def test_sources_that_a_policy_names_count_and_not_those_there_are(self):
        policy = BackpressurePolicy(sources=("a",))
        stream = dstream(receivers=3, backpressure=policy)
        found = situation(stream, record(), present(stream, record()), TWO)
        assert (found.rated, found.receivers, found.max_lag) == (1, 3, None)
        assert found.scaled is False

    def test_receivers_are_those_that_run_and_not_those_that_are_declared(self):
        """A limit for each of two would be three times too high for six."""
        stream = dstream(receivers=2, limits=StreamingLimits(max_rate=5000))
        found = situation(stream, record(receivers=6), present(stream, record()), TWO)
        assert found.receivers == 6

    def test_what_nobody_tells_is_not_known(self):
        found = situation(POLICY, record(), present(POLICY, record()), status())
        assert found.rated is None
        assert situation(READ_ONCE, record(), present(READ_ONCE, record()), TWO).rated is None


class TestChange:
    def test_options_need_a_restart(self):
        found = changed(READ_ONCE, {CLICKS: 500})
        assert (found.how, found.rates) == ("restart", {})
        assert found.in_short == "clicks.maxOffsetsPerTrigger from 1,000 to 500"

    def test_what_a_start_begins_with_waits_for_one(self):
        found = changed(POLICY, {INITIAL_RATE: 300})
        assert (found.how, plan(found)["initial_rate"], found.rates) == ("start", 300, {})
        assert found.in_short == "backpressure.initial_rate from 200 to 300"
        stream = dstream(receivers=1, limits=StreamingLimits())
        assert changed(stream, {RECEIVER_INITIAL: 300}).how == "start"

    def test_a_lower_rate_is_set_live_for_each_source(self):
        found = changed(POLICY, {MAX_RATE: 500, INITIAL_RATE: 300})
        assert (found.how, found.rates) == ("live", {"a": 500, "b": 500})
        assert (plan(found)["max_rate"], plan(found)["initial_rate"]) == (1000, 300)
        assert found.in_short.startswith("backpressure.max_rate from 1,000 to 500, backpressure.")

    def test_but_not_where_somebody_has_set_one(self):
        found = changed(POLICY, {MAX_RATE: 500}, rates={"a": {"maxRate": 700}})
        assert found.rates == {"b": 500}
        ours = {"a": {"maxRate": 700.0}, "b": {"maxRate": 700.0}}
        found = changed(POLICY, {MAX_RATE: 500}, tuned(POLICY, {"a": 700.0, "b": 700.0}), TWO, ours)
        assert found.rates == {"a": 500, "b": 500}

    def test_before_any_source_has_told_of_itself_it_is_set_for_all(self):
        found = changed(POLICY, {MAX_RATE: 500}, said=status())
        assert (found.how, found.rates) == ("live", {"*": 500})
        # Once they have, each gets its own, and the one for all goes.
        ours = {"*": {"maxRate": 500.0}}
        found = changed(POLICY, {MAX_RATE: 400}, tuned(POLICY, {"*": 500.0}), rates=ours)
        assert (found.how, found.rates) == ("live", {"a": 400, "b": 400})
        theirs = {"*": {"maxRate": 700}}
        assert changed(POLICY, {MAX_RATE: 500}, said=status(), rates=theirs).how == "restart"

    @pytest.mark.parametrize("theirs", [{"maxRate": 700}, {"maxRecordsPerTrigger": 5}])
    def test_what_a_person_has_set_for_all_is_not_undone_by_a_rate_for_each(self, theirs):
        found = changed(POLICY, {MAX_RATE: 900}, rates={"*": theirs})
        assert (found.how, found.rates) == ("restart", {})
        # Of a source with limits of its own it is not in force anyway.
        own = {"*": theirs, "a": {"maxRecordsPerTrigger": 9}}
        assert changed(POLICY, {MAX_RATE: 900}, rates=own).rates == {"a": 900}

    def test_also_where_none_is_declared(self):
        policy = structured(backpressure=BackpressurePolicy())
        assert changed(policy, {MAX_RATE: 500}).how == "live"

    def test_nor_for_sources_that_the_policy_does_not_limit(self):
        policy = BackpressurePolicy(max_rate=1000, sources=("b",))
        assert changed(structured(backpressure=policy), {MAX_RATE: 500}).rates == {"b": 500}

    def test_back_at_what_is_declared_there_are_none(self):
        found = changed(POLICY, {MAX_RATE: 1000}, tuned(POLICY, {"a": 7.0}), TWO, {})
        assert (found.how, found.rates) == ("live", {})

    @pytest.mark.parametrize(
        ("wanted", "said"),
        [
            ({MAX_RATE: 1001}, TWO),
            ({MAX_RATE: 500, MIN_RATE: 50}, TWO),
        ],
    )
    def test_all_else_needs_a_restart_with_all_of_it(self, wanted, said):
        found = changed(POLICY, wanted, tuned(POLICY, {"a": 900.0}), said)
        assert (found.how, found.rates) == ("restart", {})
        assert plan(found)["max_rate"] == wanted[MAX_RATE]

    def test_a_live_limit_that_was_tuned_goes_into_the_settings_of_a_restart(self):
        found = changed(POLICY, {MIN_RATE: 50}, tuned(POLICY, {"a": 900.0}))
        assert (found.how, plan(found)["max_rate"], found.rates) == ("restart", 900, {})

    def test_and_stays_one_where_there_is_none(self):
        found = changed(POLICY, {INITIAL_RATE: 300}, tuned(POLICY, {"a": 900.0}))
        assert (found.how, found.rates, plan(found)["max_rate"]) == ("start", {"a": 900}, 1000)

    def test_what_makes_no_sense_is_refused(self):
        with pytest.raises(DeclarationError, match="initial_rate = 200: must be at most max_rate"):
            changed(POLICY, {MAX_RATE: 150, MIN_RATE: 50})


class TestTheWayBack:
    def back(self, live: bool = False, **policy) -> str:
        """To the policy of before, from one with these fields."""
        other = structured(backpressure=BackpressurePolicy(**{"initial_rate": 200, **policy}))
        now = present(other, record())
        return way_back(other, now, declared_limits(POLICY), live)

    def test_what_only_a_start_heeds_waits_for_one(self):
        assert self.back(initial_rate=300, max_rate=1000) == "start"
        assert self.back(initial_rate=300, max_rate=1000, live=True) == "live"
        assert self.back(max_rate=1000) == "start", "nothing differs"

    def test_live_limits_alone_are_set(self):
        assert self.back(max_rate=1000, live=True) == "live"

    @pytest.mark.parametrize("live", [True, False])
    def test_all_else_needs_a_restart(self, live):
        assert self.back(max_rate=999, live=live) == "restart"
        assert self.back(min_rate=50, max_rate=1000, initial_rate=70, live=live) == "restart"
        now = present(READ_ONCE, record())
        assert way_back(READ_ONCE, now, declared_limits(limited(7)), live) == "restart"


def limited(most: int):
    return structured(limits={"clicks": SourceLimits(max_offsets_per_trigger=most)})


def test_of_what_a_person_says_that_which_is_in_force_is_left_out():
    now = present(READ_ONCE, record())
    (found,) = by_hand({CLICKS: 500.0}, now)
    assert (found.limit, found.before, found.after) == (CLICKS, 1000, 500)
    assert (found.why, found.effect) == ("set by hand", "not foreseen")
    assert by_hand({CLICKS: 1000.0}, now) == ()
