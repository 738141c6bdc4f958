"""Options of a source that are recommended: the size of a batch, and how long it may wait."""

import random
from dataclasses import replace

import pytest

from tests.backpressure.advising import DELAY, LEAST, advised, after, by_day_and_night, of
from tests.backpressure.histories import CLICKS, INTERVAL, but, minute, minutes


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
        found = of(CLICKS, history, scaled=True, values={CLICKS: 3000.0})
        assert found.after == 18_000
        assert found.why.endswith("and the stream had up to 4 executors")

    @pytest.mark.parametrize("present", [None, 62_000.0])
    def test_nobody_knows_how_many_that_are_and_none_is_held_back(self, present):
        found = advised(scaled=True, values={CLICKS: present})
        assert found.why_not == (
            f"{CLICKS}: left as it is: it can't be told how many executors there may be: declare "
            "max_executors"
        )

    def test_a_limit_for_a_load_that_has_not_come_yet_stays(self):
        """200,000 records are declared as a cap of 20 executors, which do 146,000 in a batch; two
        of them run, as 10,000 come."""
        quiet = minutes(480, ratio=0.6, input_rate=1000, processed_rate=1622, processing_ms=6000)
        found = of(CLICKS, quiet, scaled=True, most=20, values={CLICKS: 200_000.0})
        assert found.after == 140_000, "what 20 executors do, however small batches are"
        assert "the largest batch" not in found.why
        assert advised(quiet, scaled=True, most=20, values={CLICKS: 150_000.0}).recommended == ()
        assert after(quiet, scaled=True, most=20, values={CLICKS: None}) == {CLICKS: 140_000}

    def test_peaks_of_the_day_do_not_move_it_each_night(self):
        """Four weeks with peaks that differ from day to day, and a limit that follows the batches
        of the week: what moves it is a load that stays."""
        chance = random.Random(7)
        week, limit, changes = [], 8000.0, 0
        for day in range(28):
            peak = 1.5 * chance.lognormvariate(0, 0.4)
            week += [
                replace(
                    minute(number, input_rate=came, processed_rate=2000, ratio=came / 2000),
                    processing_ms=5 * came,
                    limit=came,
                )
                for number in range(1440 * day, 1440 * day + 1440, 10)
                for came in [300 * (peak if number % 1440 in range(600, 620) else 1.0)]
            ]
            week = week[-7 * 144 :]
            found = after(week, most=4, scaled=True, values={CLICKS: limit})
            if CLICKS in found:
                limit, changes = found[CLICKS], changes + 1
        assert changes <= 1, limit

    def test_no_further_than_three_times_the_largest_batch_there_was(self):
        small = minutes(ratio=0.2, processing_ms=2000, input_rate=200, limit=200)
        found = of(CLICKS, small, values={CLICKS: 2000.0})
        assert found.after == 6000
        assert "at most 3 times the largest batches that were seen, of 2,000 records" in found.why
        assert found.why.startswith("an executor does 500 records/s or more")
        once = but(small, range(100, 129), processing_ms=9000)
        assert of(CLICKS, once, values={CLICKS: 2000.0}).after == 6000, "not for half an hour"
        longer = but(small, range(100, 130), processing_ms=9000)
        assert of(CLICKS, longer, values={CLICKS: 2000.0}).after == 9000
        assert advised(small, values={CLICKS: 8000.0}).recommended == (), "and is not lowered"
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
        assert [each.limit for each in found.recommended] == ["b.maxOffsetsPerTrigger"]
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
