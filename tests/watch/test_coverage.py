"""No batch falls between two evaluations, whenever ticks come and whenever Spark tells of it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.driver.batches.history import History
from dagster_sparkscale.observe.evaluate import evaluate
from dagster_sparkscale.watch.coverage import (
    DELAY,
    LONGEST,
    NEVER,
    Evaluated,
    covered,
    to_ask_for,
)
from tests.fakes import batch, status

WINDOW = 60.0
START = 1_000_000.0


def evaluations(ticks, batches, offset):
    """What each of a sequence of ticks evaluates: of each batch, one bit.

    Args:
        ticks: seconds since the tick before, seconds until the look begins, until it is answered.
        batches: seconds after the first tick at which they complete, until Spark tells of them.
        offset: seconds that the driver's clock is ahead of ours.
    """
    told = [
        (START + at + delay, batch(1, ago=0, now=START + offset + at, triggers=1 << number))
        for number, (at, delay) in enumerate(batches)
    ]
    told.sort(key=lambda pair: pair[0])
    history, before, last, ours, found = History(), NEVER, None, START - ticks[0][0], []
    for gap, wait, latency in ticks:
        ours += gap
        elapsed = None if last is None else ours + wait - last
        answered = ours + wait + latency
        while told and told[0][0] <= answered:
            history.add(told.pop(0)[1])
        now = answered + offset
        listed, seq = history.read(after=now - to_ask_for(WINDOW, elapsed))
        answer = status(now=now, started_at=0.0, batches=tuple(listed), last_seq=seq)
        window, newest = covered(WINDOW, answer, before)
        evaluation = evaluate(answer, window=window, batch_interval=10.0, newest=newest)
        found.append(evaluation.completed)
        before, last = Evaluated(now, seq), ours
    return found, [piece.triggers for _, piece in told]


gaps = st.floats(1, LONGEST * WINDOW - 30 - 2 * DELAY)
late = st.floats(0, DELAY)
clocks = st.sampled_from([0.0, 3600.0, -3600.0, 0.3])
all_batches = st.lists(st.tuples(st.floats(0, 900), late), max_size=40)


class TestNoBatchIsLost:
    @given(
        st.lists(st.tuples(gaps, st.floats(0, 30), late), min_size=1, max_size=12),
        all_batches,
        clocks,
    )
    def test_each_is_in_an_evaluation_whenever_ticks_come(self, ticks, batches, offset):
        found, not_told_yet = evaluations(ticks, batches, offset)
        everything = (1 << len(batches)) - 1 - sum(not_told_yet)
        union = 0
        for bits in found:
            union |= bits
        assert union == everything

    @given(
        st.lists(st.tuples(st.floats(WINDOW + 1, 100), st.just(0.5), st.just(0.1)), min_size=1),
        all_batches,
        clocks,
    )
    def test_it_is_in_one_only_where_ticks_are_no_closer_than_a_window(
        self, ticks, batches, offset
    ):
        found, _ = evaluations(ticks[:12], batches, offset)
        seen = 0
        for bits in found:
            assert seen & bits == 0
            seen |= bits

    def test_ticks_every_65_seconds_lose_nothing_that_a_window_of_60_would(self):
        found, _ = evaluations([(65, 0, 0)] * 3, [(3, 0), (68, 0)], 0.0)
        assert found == [0, 1, 2]


class TestCovered:
    SEEN = status(now=2000.0, started_at=1000.0, last_seq=50)

    def test_it_is_the_declared_window_or_the_time_since_the_last_evaluation(self):
        assert covered(60.0, self.SEEN, Evaluated(1980.0, 48)) == (60.0, 2)
        assert covered(60.0, self.SEEN, Evaluated(1935.0, 40)) == (65.0, 10)
        assert covered(60.0, self.SEEN, Evaluated(1934.04, 40)) == (65.9, 10)

    def test_the_driver_may_just_have_started_or_been_looked_at(self):
        assert covered(60.0, self.SEEN, Evaluated(1000.0, 40)) == (180.0, 10)
        assert covered(60.0, self.SEEN, Evaluated(2000.0, 48)) == (60.0, 2)

    def test_it_has_a_limit(self):
        assert covered(60.0, self.SEEN, Evaluated(1100.0, 0)) == (180.0, 50)
        assert to_ask_for(60.0, 900.0) == 180.0

    @pytest.mark.parametrize(
        "before",
        [NEVER, Evaluated(999.0, 40), Evaluated(2001.0, 40)],
        ids=["none", "of an earlier driver", "before the clock was set back"],
    )
    def test_an_evaluation_that_says_nothing_leaves_it_at_the_declared_window(self, before):
        assert covered(60.0, self.SEEN, before) == (60.0, 0)

    def test_it_is_never_longer_than_the_driver_has_run_for(self):
        for at in (1000.0, 1000.01, 1003.33):
            young = replace(self.SEEN, now=1061.26)
            assert covered(20.0, young, Evaluated(at, 0))[0] <= 61.26 - (at - 1000.0)

    def test_a_driver_that_counts_anew_is_believed(self):
        assert covered(60.0, self.SEEN, Evaluated(1900.0, 70)) == (100.0, 0)

    def test_a_short_window_is_asked_for_as_it_is_the_first_time(self):
        assert to_ask_for(60.0, None) == 60.0
        assert to_ask_for(60.0, -5.0) == 60.0
        assert to_ask_for(60.0, 65.0) == 75.0
