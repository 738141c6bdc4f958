"""Rates that are recommended: each with what it was, why, and what is to be expected."""

import pytest

from dagster_sparkscale.backpressure.advice import of_batch
from dagster_sparkscale.backpressure.recommend import recommend
from dagster_sparkscale.in_force.limits import (
    INITIAL_RATE,
    MAX_RATE,
    MIN_RATE,
    RECEIVER_INITIAL,
    RECEIVER_MAX,
)
from dagster_sparkscale.quantities import number
from tests.backpressure.advising import RATES, advised, after, by_day_and_night, of
from tests.backpressure.histories import but, in_force, minutes

DOES = "an executor does 500 records/s or more in 90 % of 477 loaded minutes of 8 h with work, and"


def of_rates(first=None, least=100.0, most=None, history=None, least_gain=0.2, **fields):
    limits = {INITIAL_RATE: first, MIN_RATE: least, MAX_RATE: most}
    now = in_force(**{"values": limits, "rated": 1, **fields})
    return recommend(minutes() if history is None else history, now, least_gain)


def told(*args, **fields) -> dict[str, tuple]:
    return {
        each.limit: (each.before, each.after, each.why, each.effect)
        for each in of_rates(*args, **fields).recommended
    }


def rates_after(*args, **fields) -> dict[str, float]:
    return {knob: each[1] for knob, each in told(*args, **fields).items()}


def received(highest=None, first=None, history=None, least_gain=0.2, **fields):
    limits = {RECEIVER_MAX: highest, RECEIVER_INITIAL: first}
    now = in_force(**{"values": limits, "receivers": 1, **fields})
    return recommend(minutes() if history is None else history, now, least_gain)


def taken(*args, **fields) -> dict[str, float]:
    return {each.limit: each.after for each in received(*args, **fields).recommended}


def test_all_of_a_policy_that_two_sources_share():
    assert told(first=700.0, least=5000.0, most=50_000.0, rated=2) == {
        MIN_RATE: (
            5000,
            250,
            "with 2 executors the stream sustains 1,000 records/s, shared by 2 sources: no limit "
            "may force more on it",
            "an overloaded stream is limited to what it can do",
        ),
        MAX_RATE: (
            50_000,
            500,
            "at their best 2 executors do 1,000 records/s, shared by 2 sources",
            "an estimate that is too high for a moment goes no further",
        ),
        INITIAL_RATE: (
            700,
            450,
            f"{DOES} a start begins with 2 executors, shared by 2 sources",
            "a start begins with 450 records/s and not with 700",
        ),
    }


def test_of_one_source_nothing_is_shared():
    at_it = but(minutes(), range(100, 140), throttled="counts")
    assert told(first=350.0, most=400.0, history=at_it) == {
        MAX_RATE: (
            400,
            1000,
            "at their best 2 executors do 1,000 records/s, and its input stood at its limit in 40 "
            "minutes",
            "up to 1,000 records/s catch up instead of 400",
        ),
        INITIAL_RATE: (
            350,
            900,
            f"{DOES} a start begins with 2 executors",
            "a start begins with 900 records/s and not with 350",
        ),
    }


def test_what_is_as_it_should_be_stays():
    at_it = but(minutes(), range(100, 140), throttled="counts")
    assert rates_after(first=900.0, least=500.0, most=1000.0, history=at_it) == {}
    assert rates_after(first=900.0, least=500.0, most=1200.0) == {}
    assert rates_after(first=800.0, least=600.0) == {}, "there is little to gain"


def test_what_a_start_begins_with_is_never_above_the_most():
    assert rates_after(first=1040.0, least=10.0, most=1040.0, least_gain=0.1) == {INITIAL_RATE: 900}
    lowered = rates_after(first=1240.0, least=10.0, most=1250.0, start=9, least_gain=0.2)
    assert lowered == {MAX_RATE: 1000, INITIAL_RATE: 1000}
    assert rates_after(first=1000.0, least=10.0, most=1000.0, start=9) == {}


def test_a_floor_is_lowered_to_no_less_than_a_record_a_batch():
    slow = minutes(processed_rate=0.4, input_rate=0.1)
    assert rates_after(least=1.0, history=slow)[MIN_RATE] == 0.2
    slower = minutes(processed_rate=0.2, input_rate=0.05)
    assert rates_after(least=1.0, history=slower)[MIN_RATE] == 0.1
    found = of_rates(least=1.0, history=minutes(processed_rate=0.18, input_rate=0.05))
    assert found.recommended == () and "which is below backpressure.min_rate" in found.why_not


def test_beginning_at_the_floor_is_all_right():
    assert rates_after(least=900.0, least_gain=2.0) == {INITIAL_RATE: 900}
    assert rates_after(least=901.0, least_gain=2.0) == {}


def test_the_most_may_be_the_floor_and_not_below_it():
    limits = {"least": 1000.0, "most": 50_000.0, "least_gain": 0.9, "start": 9}
    assert rates_after(**limits)[MAX_RATE] == 1000
    assert MAX_RATE not in rates_after(**{**limits, "least": 1001.0})


def test_executors_that_are_added_by_hand_alone_are_not_counted_on():
    limits = {INITIAL_RATE: 900.0, MIN_RATE: 10.0, MAX_RATE: 50_000.0}
    now = in_force(values=limits, rated=1, most=8)
    found = {each.limit: each.after for each in recommend(minutes(), now, 0.2).recommended}
    assert found == {MAX_RATE: 1000}


def test_all_of_receivers_of_which_there_are_two():
    found = {
        each.limit: (each.before, each.after, each.why, each.effect)
        for each in received(4000.0, 3000.0, receivers=2, start=1).recommended
    }
    assert found == {
        RECEIVER_MAX: (
            4000,
            450,
            f"{DOES} the stream usually has 2 executors, shared by 2 receivers",
            "a batch after an outage takes 0.9 intervals instead of 8.0",
        ),
        RECEIVER_INITIAL: (
            3000,
            220,
            f"{DOES} a start begins with 1 executors, shared by 2 receivers",
            "a start begins with 220 records/s and not with 3,000",
        ),
    }


def test_of_one_receiver_nothing_is_shared():
    most, first = received().recommended
    assert (most.before, first.before) == (None, None)
    assert most.why.endswith("2 executors") and first.why.endswith("2 executors")
    assert first.effect == "a start begins with 900 records/s and not without a limit"


def test_receivers_that_are_limited_as_they_should_be_stay_so():
    assert taken(900.0, 900.0) == {}
    assert taken(1000.0, 1000.0) == {}
    assert taken(1000.0, 800.0) == {}
    assert taken(2000.0, 950.0) == {RECEIVER_MAX: 900, RECEIVER_INITIAL: 900}


def test_a_start_of_receivers_has_no_more_executors_than_there_may_be():
    assert taken(900.0, 100.0, start=9, most=1, history=minutes(input_rate=100)) == {
        RECEIVER_MAX: 450,
        RECEIVER_INITIAL: 450,
    }


def test_receivers_go_no_further_than_three_times_the_largest_batch():
    small = minutes(processing_ms=2000, ratio=0.5, input_rate=200)
    assert taken(200.0, 200.0, history=small) == {RECEIVER_MAX: 600, RECEIVER_INITIAL: 600}
    assert taken(800.0, 800.0, history=small) == {}, "and none is lowered to that"
    small = minutes(processing_ms=2000, input_rate=200)
    assert taken(150.0, 150.0, history=small, receivers=2) == {
        RECEIVER_MAX: 300,
        RECEIVER_INITIAL: 300,
    }


def test_what_comes_in_is_not_cut():
    whole = received(4000.0, history=minutes(input_rate=900, ratio=0.9), receivers=2)
    assert whole.notes[0] == (
        "spark.streaming.receiver.maxRate: left as it is: 900 records/s come in, and with 2 "
        "executors the stream sustains 900: that takes more executors, a limit would only make it "
        "fall behind"
    )
    assert RECEIVER_MAX in taken(4000.0, history=minutes(input_rate=899, ratio=0.9), receivers=2)


@pytest.mark.parametrize(("interval", "limited"), [(1.0, True), (0.9, False)])
def test_not_even_one_record_a_batch(interval, limited):
    slow = minutes(processed_rate=2.4, input_rate=0.1, processing_ms=9000)
    found = taken(history=slow, interval=interval, receivers=2)
    assert bool(found) is limited
    if limited:
        assert found == {RECEIVER_MAX: 1, RECEIVER_INITIAL: 1}


def test_numbers_and_batches_for_people():
    assert [number(99.9), number(100), number(100.4)] == ["99.9", "100", "100"]
    assert of_batch(500, 500, 100, 10) == (
        "a batch after an outage takes 0.5 intervals instead of 0.5"
    )


class TestRates:
    def test_a_start_begins_with_what_it_can_do(self):
        found = of(INITIAL_RATE, values=RATES, rated=1)
        assert (found.before, found.after) == (None, 900)
        assert found.why.endswith("and a start begins with 2 executors")
        assert found.effect == (
            "a start begins with 900 records/s and not as if nothing were known of it"
        )

    def test_shared_by_its_sources_and_with_the_executors_there_may_be(self):
        assert after(values=RATES, rated=3) == {INITIAL_RATE: 300}
        assert after(values=RATES, rated=1, start=8, most=4) == {INITIAL_RATE: 1800}

    @pytest.mark.parametrize("rated", [None, 0])
    def test_without_knowing_how_many_share_them_they_are_left_alone(self, rated):
        found = advised(values=RATES, rated=rated)
        assert found.why_not.startswith("backpressure rates: left as they are: it is not known")

    def test_a_floor_that_is_too_high_is_lowered(self):
        found = after(values={**RATES, MIN_RATE: 5000.0}, rated=1)
        assert found == {MIN_RATE: 500, INITIAL_RATE: 900}
        assert MIN_RATE not in after(values={**RATES, MIN_RATE: 500.0}, rated=1)

    def test_where_it_may_not_be_lowered_nothing_is_begun_below_it(self):
        found = advised(values={**RATES, MIN_RATE: 5000.0}, rated=1, least_gain=2.0)
        assert found.recommended == ()
        assert "sustains 900 records/s, which is below backpressure.min_rate" in found.why_not

    def test_a_most_that_bounds_nothing_is_lowered(self):
        found = of(MAX_RATE, values={**RATES, MAX_RATE: 50_000.0}, rated=1)
        assert (found.before, found.after) == (50_000, 1000)
        assert found.why == "at their best 2 executors do 1,000 records/s"

    def test_but_not_below_what_comes_in_for_a_while_each_day(self):
        history = but(minutes(), range(100, 148), input_rate=1300)
        assert MAX_RATE not in after(history, values={**RATES, MAX_RATE: 5000.0}, rated=1)

    def test_but_not_below_what_executors_do_that_may_be_added(self):
        limits = {**RATES, MAX_RATE: 50_000.0}
        assert after(values=limits, rated=1, most=8, scaled=True)[MAX_RATE] == 4000
        assert after(values=limits, rated=1, most=1, scaled=True)[MAX_RATE] == 1000
        assert MAX_RATE not in after(values=limits, rated=1, scaled=True)

    def test_one_that_is_in_the_way_is_raised(self):
        limits = {**RATES, MAX_RATE: 400.0}
        assert MAX_RATE not in after(values=limits, rated=1)
        at_it = but(minutes(), range(100, 130), throttled="counts")
        found = of(MAX_RATE, at_it, values=limits, rated=1)
        assert found.after == 1000
        assert found.why.endswith("and its input stood at its limit in 30 minutes")
        few = but(minutes(), range(100, 129), throttled="counts")
        assert MAX_RATE not in after(few, values=limits, rated=1)

    def test_none_stays_none(self):
        assert MAX_RATE not in after(values=RATES, rated=1)

    def test_what_it_begins_with_is_not_above_the_most(self):
        limits = {INITIAL_RATE: 40_000.0, MIN_RATE: 10.0, MAX_RATE: 50_000.0}
        found = after(values=limits, rated=1, start=100)
        assert found == {MAX_RATE: 1000, INITIAL_RATE: 1000}


RECEIVERS = {RECEIVER_MAX: None, RECEIVER_INITIAL: None}


class TestReceivers:
    def test_each_has_its_share(self):
        found = after(values=RECEIVERS, receivers=1, queries=None)
        assert found == {RECEIVER_MAX: 900, RECEIVER_INITIAL: 900}
        found = of(RECEIVER_MAX, values={RECEIVER_MAX: 4000.0}, receivers=2)
        assert found.after == 450
        assert found.effect == "a batch after an outage takes 0.9 intervals instead of 8.0"

    def test_a_start_with_fewer_executors_begins_with_less(self):
        found = after(values=RECEIVERS, receivers=1, start=1)
        assert found == {RECEIVER_MAX: 900, RECEIVER_INITIAL: 450}

    def test_what_a_start_begins_with_is_not_above_the_most(self):
        assert after(values=RECEIVERS, receivers=1, start=9)[RECEIVER_INITIAL] == 900

    def test_without_receivers_there_is_nothing_to_limit(self):
        assert "declares no receivers" in advised(values=RECEIVERS).why_not

    def test_nor_is_what_comes_in_for_a_third_of_the_day(self):
        found = advised(by_day_and_night(), values={RECEIVER_MAX: 20_000.0}, receivers=1)
        assert not found.recommended and "950 records/s come in in the hours" in found.why_not

    def test_what_comes_in_is_not_cut(self):
        history = minutes(input_rate=1000, ratio=1.2, processing_ms=12_000)
        found = advised(history, values={RECEIVER_MAX: 4000.0}, receivers=1)
        assert "that takes more executors" in found.why_not
