"""From what a stream sustains to limits, with reasons and what is to be expected."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_sparkscale.backpressure.advice import number, rounded, shown
from dagster_sparkscale.backpressure.knobs import (
    INITIAL_RATE,
    MAX_RATE,
    MIN_RATE,
    RECEIVER_INITIAL,
    RECEIVER_MAX,
    values,
    with_values,
)
from dagster_sparkscale.backpressure.recommend import recommend
from dagster_sparkscale.backpressure.sustained import Sustained, sustained
from dagster_sparkscale.clusters.tuned import declared_limits
from dagster_sparkscale.declare.backpressure import BackpressurePolicy
from dagster_sparkscale.declare.limits import SourceLimits, StreamingLimits
from dagster_sparkscale.observe.minutes import Minute
from tests.backpressure.histories import BEGAN, CLICKS, INTERVAL, but, in_force, minute, minutes
from tests.fakes import dstream, structured

LEAST = "clicks.minOffsetsPerTrigger"
DELAY = "clicks.maxTriggerDelay"
RATES = {INITIAL_RATE: None, MIN_RATE: 100.0, MAX_RATE: None}


def advised(history=None, least_gain: float = 0.2, **fields):
    return recommend(minutes() if history is None else history, in_force(**fields), least_gain)


def after(*args, **fields) -> dict[str, float]:
    """What is recommended, by knob."""
    return {each.knob: each.after for each in advised(*args, **fields).recommended}


def of(knob: str, *args, **fields):
    (found,) = (each for each in advised(*args, **fields).recommended if each.knob == knob)
    return found


def by_day_and_night() -> list[Minute]:
    """A week: for eight hours a day as much comes in as batches just do, which do less by night."""
    week = minutes(7 * 1440, ratio=0.63, input_rate=500, processed_rate=800, processing_ms=6300)
    day = [number for number in range(7 * 1440) if 540 <= number % 1440 < 1020]
    return but(week, day, ratio=0.95, input_rate=950, processed_rate=1000, processing_ms=9500)


class TestOptions:
    def test_a_batch_of_nine_tenths_of_its_interval(self):
        found = of(CLICKS)
        assert (found.before, found.after) == (None, 2 * 500 * 0.9 * INTERVAL)
        assert found.why == (
            "an executor does 500 records/s or more in 90 % of 477 loaded minutes of 8 h with "
            "work, and the stream usually has 2 executors"
        )
        assert found.effect == (
            "a batch after an outage takes 0.9 intervals, and not as many as it likes"
        )

    def test_a_limit_that_is_too_high_is_lowered(self):
        found = of(CLICKS, values={CLICKS: 62_000.0})
        assert (found.before, found.after) == (62_000, 9000)
        assert found.effect == "a batch after an outage takes 0.9 intervals instead of 6.2"
        assert str(found).startswith("clicks.maxOffsetsPerTrigger: 62,000 -> 9,000: an executor")

    def test_a_limit_that_is_too_low_is_raised(self):
        found = of(CLICKS, values={CLICKS: 3000.0})
        assert found.effect == (
            "a batch after an outage takes 0.9 intervals instead of 0.3, and 900 records/s catch "
            "up instead of 300"
        )

    @pytest.mark.parametrize(
        ("present", "changed"), [(7501, False), (7500, True), (11_249, False), (11_250, True)]
    )
    def test_nothing_is_done_for_less_than_the_least_gain(self, present, changed):
        found = advised(values={CLICKS: float(present)})
        assert bool(found.recommended) is changed
        if not changed:
            assert found.why_not.startswith(
                "nothing to gain: no limit differs by 20% or more from what its history recommends"
            )

    def test_as_many_executors_as_it_usually_has_and_may_have(self):
        history = but(minutes(1000), range(400, 1000), registered=4, processed_rate=2000)
        assert after(history) == {CLICKS: 18_000}
        assert after(history, most=3) == {CLICKS: 13_000}
        assert after(history, most=1) == {}, "700 records/s come in"

    def test_where_executors_are_added_as_many_as_there_may_be(self):
        found = of(CLICKS, scaled=True, most=4, values={CLICKS: 62_000.0})
        assert found.after == 18_000
        assert found.why.endswith("and the stream may have 4 executors")
        assert found.effect.endswith("takes 1.8 intervals instead of 6.2")
        history = but(minutes(1000), range(900, 1000), registered=4, processed_rate=2000)
        found = of(CLICKS, history, scaled=True)
        assert found.after == 18_000
        assert found.why.endswith("and the stream had up to 4 executors")

    def test_no_further_than_three_times_the_largest_batch_there_was(self):
        small = minutes(ratio=0.2, processing_ms=2000, input_rate=200, limit=200)
        found = of(CLICKS, small, values={CLICKS: 2000.0})
        assert found.after == 6000
        assert "at most 3 times the largest batch that was seen, of 2,000 records" in found.why
        assert found.why.startswith("an executor does 500 records/s or more")
        just = minutes(processing_ms=3000, ratio=0.5, input_rate=300)
        assert of(CLICKS, just).after == 9000
        assert "the largest batch" not in of(CLICKS, just).why

    def test_what_comes_in_is_not_cut(self):
        history = minutes(input_rate=1000, ratio=1.2, processing_ms=12_000)
        assert advised(history, values={CLICKS: 50_000.0}).why_not == (
            "clicks.maxOffsetsPerTrigger: left as it is: 1,000 records/s come in, and with 2 "
            "executors the stream sustains 900: that takes more executors, a limit would only make "
            "it fall behind"
        )

    @pytest.mark.parametrize("present", [None, 20_000.0])
    def test_nor_is_what_comes_in_for_a_third_of_the_day(self, present):
        found = advised(by_day_and_night(), values={CLICKS: present})
        assert not found.recommended
        assert found.why_not == (
            f"{CLICKS}: left as it is: 950 records/s come in in the hours with most, and with 2 "
            "executors the stream sustains 720: that takes more executors, a limit would only make "
            "it fall behind"
        )

    def test_but_a_limit_below_that_may_be_raised(self):
        assert after(by_day_and_night(), values={CLICKS: 5500.0}) == {CLICKS: 7200}

    def test_not_even_one_record(self):
        history = minutes(processed_rate=0.1, input_rate=0.01, processing_ms=7000)
        assert "not even one record fits" in advised(history).why_not
        one = minutes(processed_rate=0.2, input_rate=0.01, processing_ms=7000)
        assert after(one) == {CLICKS: 1}
        two = {"a.maxOffsetsPerTrigger": 1.0, "b.maxOffsetsPerTrigger": 20_000.0}
        found = advised(values=two)
        assert [each.knob for each in found.recommended] == ["b.maxOffsetsPerTrigger"]
        assert "a.maxOffsetsPerTrigger: left as it is: not even one" in found.notes[0]

    def test_several_sources_share_as_they_do(self):
        two = {"a.maxOffsetsPerTrigger": 30_000.0, "b.maxOffsetsPerTrigger": 10_000.0}
        assert after(values=two) == {
            "a.maxOffsetsPerTrigger": 6700,
            "b.maxOffsetsPerTrigger": 2200,
        }
        found = of("b.maxOffsetsPerTrigger", values=two)
        assert "; 25% of it is for this source, as now" in found.why
        assert found.why.startswith("an executor does 500 records/s or more")
        assert "takes 0.9 intervals instead of 4.0" in found.effect

    def test_several_sources_of_which_one_has_no_limit_are_left_alone(self):
        two = {"a.maxOffsetsPerTrigger": 30_000.0, "b.maxOffsetsPerTrigger": None}
        assert "shared as their limits are, and one has none" in advised(values=two).why_not

    @pytest.mark.parametrize(("queries", "told"), [(2, "2 queries"), (None, "unknown number of")])
    def test_of_several_queries_it_can_not_be_told(self, queries, told):
        found = advised(queries=queries)
        assert found.recommended == () and told in found.why_not
        assert "the history has totals of all queries" in found.why_not


class TestTinyBatches:
    HISTORY = but(
        minutes(1000),
        range(100, 1000),
        **{"ratio": 0.3, "processed_rate": 100, "input_rate": 30, "processing_ms": 3000},
    )

    def test_the_least_of_a_batch_is_raised_where_somebody_has_said_that_it_may_wait(self):
        limits = {CLICKS: 9000.0, LEAST: 100.0, DELAY: None}
        found = of(LEAST, self.HISTORY, values=limits)
        assert (found.before, found.after) == (100, 1800)
        assert found.why.startswith("in 90% of the minutes with work batches are tiny")
        assert found.effect == (
            "a batch waits until it is a fifth of a full one, or clicks.maxTriggerDelay is over"
        )
        near = {CLICKS: 9000.0, LEAST: 1600.0, DELAY: None}
        assert advised(self.HISTORY, values=near).recommended == ()
        more = {CLICKS: 9000.0, LEAST: 5000.0, DELAY: None}
        assert advised(self.HISTORY, values=more).recommended == (), "it is never lowered for that"

    def test_else_it_is_only_told(self):
        found = advised(self.HISTORY, values={CLICKS: 9000.0, LEAST: None})
        assert found.recommended == ()
        assert "minOffsetsPerTrigger would make fewer and larger ones" in found.why_not

    @pytest.mark.parametrize(("lag", "wanted"), [(None, None), (899, 440), (900, None)])
    def test_no_batch_waits_for_longer_than_the_lag_that_is_declared(self, lag, wanted):
        limits = {CLICKS: 9000.0, LEAST: 1800.0, DELAY: None}
        assert after(self.HISTORY, values=limits, max_lag=lag).get(DELAY) == wanted

    def test_also_than_one_that_is_declared(self):
        limits = {CLICKS: 9000.0, LEAST: 1800.0, DELAY: 60.0}
        assert after(self.HISTORY, values=limits, max_lag=60) == {}
        found = of(DELAY, self.HISTORY, values=limits, max_lag=50)
        assert (found.before, found.after) == (60, 25)
        assert found.why == "max_lag = 50 s, and a batch may wait for longer"
        assert found.effect == "data comes before max_lag is over"
        assert after(self.HISTORY, values=limits, max_lag=2) == {DELAY: 1}
        assert after(self.HISTORY, values=limits, max_lag=1.9) == {}

    def test_it_is_never_above_the_most(self):
        limits = {CLICKS: 62_000.0, LEAST: 40_000.0}
        assert after(values=limits) == {CLICKS: 9000, LEAST: 9000}
        found = of(LEAST, values=limits)
        assert (found.before, found.why) == (
            40_000,
            "it must not be above clicks.maxOffsetsPerTrigger, which is 9,000",
        )
        assert found.effect == "it makes no batch wait for more than that"
        assert after(values={CLICKS: 62_000.0, LEAST: 9000.0}) == {CLICKS: 9000}

    def test_without_tiny_batches_nothing_is_said_of_it(self):
        assert advised(values={CLICKS: 9000.0, LEAST: None}).notes == (
            "3 minutes of starts were left out",
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


def test_without_limits_there_is_nothing_to_retune():
    assert advised(values={}).why_not == "it has no limits that could be retuned"


def test_without_enough_history_nothing_is_recommended():
    found = advised(minutes(10))
    assert found.recommended == () and found.why_not.startswith("not enough history: 0.1 h")


def test_what_was_left_alone_is_told_beside_what_is_recommended():
    found = advised(values={CLICKS: None, **RATES}, rated=None)
    assert [each.knob for each in found.recommended] == [CLICKS]
    assert found.notes[0].startswith("backpressure rates: left as they are")


@pytest.mark.parametrize(
    ("value", "down"),
    [
        *((0, 0), (-1, 0), (math.inf, 0), (math.nan, 0)),
        *((1, 1), (9.99, 9.9), (10, 10), (99.9, 99), (100, 100), (109, 100), (119_999, 110_000)),
        *((0.0123, 0.012), (1e-9, 1e-9), (9000, 9000)),
    ],
)
def test_down_to_two_digits(value, down):
    assert rounded(value) == pytest.approx(down, rel=1e-12)


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "no limit"), (12_345_678, "12,345,678"), (100, "100"), (99.94, "99.9"), (0.5, "0.5")],
)
def test_numbers_for_people(value, text):
    assert shown(value) == text
    assert value is None or number(value) == text


# Whatever there is of history and limits.

amounts = st.none() | st.floats(0.01, 1e6, allow_nan=False)
tallies = st.none() | st.integers(0, 20)
blocks = st.builds(
    dict,
    ratio=st.none() | st.floats(0, 3),
    registered=tallies,
    processing_ms=st.none() | st.floats(1, 60_000),
    input_rate=amounts,
    processed_rate=amounts,
    completed=tallies,
    failed=st.sampled_from([None, 0, 0, 0, 1]),
    limit=amounts,
    throttled=st.sampled_from([None, "counts"]),
    epoch=st.integers(1, 3),
)


@st.composite
def histories(draw) -> list[Minute]:
    """Stretches of an hour, each of which is like another; with gaps between some."""
    found, at = [], BEGAN
    for fields in draw(st.lists(blocks, min_size=1, max_size=14)):
        at += draw(st.sampled_from([0, 0, 7200]))
        for _ in range(60):
            found.append(Minute(at, "running", **fields))
            at += 60
    return found


likely = histories() | st.builds(
    lambda speed, busy, executors: minutes(
        400,
        processed_rate=speed * executors,
        ratio=busy,
        registered=executors,
        processing_ms=busy * 10_000,
        input_rate=speed * executors * busy,
    ),
    st.floats(0.1, 1e5),
    st.floats(0.5, 2),
    st.integers(1, 9),
)
limits = st.none() | st.integers(1, 10**7)


def ordered(*given: float | None) -> list[float | None]:
    """The values that there are in ascending order, in the places of those that there are."""
    there = iter(sorted(value for value in given if value is not None))
    return [None if value is None else next(there) for value in given]


@st.composite
def streams(draw):
    kind = draw(st.sampled_from(["options", "policy", "receivers"]))
    if kind == "options":
        least, most = ordered(draw(limits), draw(limits))
        least = None if most is None else least
        return structured(
            limits={
                name: SourceLimits(max_offsets_per_trigger=most, min_offsets_per_trigger=least)
                for name in draw(st.sampled_from([["a"], ["a", "b"]]))
            }
        )
    if kind == "policy":
        floor, first, most = ordered(draw(st.integers(1, 10**6)), draw(limits), draw(limits))
        policy = BackpressurePolicy(min_rate=floor, initial_rate=first, max_rate=most)
        return structured(backpressure=policy)
    first, most = ordered(draw(limits), draw(limits))
    declared = StreamingLimits(initial_rate=first, max_rate=most)
    return dstream(receivers=draw(st.integers(1, 3)), limits=declared)


def situation(stream, start: int, most: int | None, **fields):
    present = values(stream, declared_limits(stream))
    receivers = getattr(stream, "receivers", 0)
    return in_force(values=present, start=start, most=most, rated=1, receivers=receivers, **fields)


@settings(deadline=None)
@given(
    *(likely, streams(), st.integers(1, 9), st.none() | st.integers(1, 9)),
    *(st.floats(0.01, 3), st.booleans()),
)
def test_what_is_recommended_fits_together_and_is_no_more_than_was_measured(
    history, stream, start, most, least_gain, scaled
):
    now = situation(stream, start, most, scaled=scaled)
    found = recommend(history, now, least_gain)
    assert bool(found.recommended) != bool(found.why_not)
    wanted = {each.knob: each.after for each in found.recommended}
    with_values(stream, now.values, wanted)  # else the declaration refuses it
    if not wanted:
        return
    seen = sustained(history, now.interval)
    assert isinstance(seen, Sustained)
    fastest = max((m.processed_rate or 0) / m.registered for m in history if m.registered)
    for each in found.recommended:
        assert each.why and each.effect
        assert each.after != each.before
        executors = max(seen.executors, start, seen.most, most or 0)
        bound = fastest * executors * (1 + 1e-9)
        if each.knob.endswith("OffsetsPerTrigger"):
            bound *= now.interval
        assert each.after <= bound, each


@settings(deadline=None)
@given(st.floats(1, 1e4), st.floats(1, 4), st.integers(1, 5), st.integers(0, 4))
def test_faster_executors_and_more_of_them_never_get_less(speed, factor, executors, more):
    def limit(speed: float, executors: int) -> float:
        history = [
            minute(n, processed_rate=speed * executors, registered=executors, input_rate=0.5)
            for n in range(480)
        ]
        return after(history).get(CLICKS, 0)

    assert limit(speed * factor, executors) >= limit(speed, executors)
    assert limit(speed, executors + more) >= limit(speed, executors)
