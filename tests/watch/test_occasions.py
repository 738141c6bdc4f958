"""When a stream is told of: at once if something has happened, else now and then."""

import zlib
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.watch.memory import NOTHING, Reported
from dagster_sparkscale.watch.page.occasions import late_from, occasion, said

NOON = 1_800_000_000
LATE = 60.0
EVERY = 600.0
QUIET = Minute(NOON, "running", epoch=1, ratio=0.5, lag=5, registered=2, requested=2)
# The first second of one of its own moments, and so 600 s until the next.
FIRST = NOON + 600 - (NOON + zlib.crc32(b"clicks")) % 600


def why(before, now, stream="clicks", acts=False, report_every=EVERY):
    return occasion(stream, before, now, acts=acts, report_every=report_every)


def walk(minutes, headline="running", late=LATE, report_every=EVERY):
    """What the stream is told for of these minutes, as the sensor goes through them."""
    told, found = NOTHING, []
    for minute in minutes:
        now = said(told, minute, headline, late)
        found.append(why(told, now, report_every=report_every))
        if found[-1] is not None:
            told = now
    return found


def at(number, **fields):
    return replace(QUIET, at=FIRST + number, **fields)


class TestTold:
    def test_all_that_is_news_later(self):
        assert said(NOTHING, QUIET, "running", LATE) == Reported(
            NOON, "running", 1, 2, 2, False, False
        )
        busy = replace(QUIET, ratio=1.0, lag=60.0)
        assert said(NOTHING, busy, "running", LATE) == Reported(
            NOON, "running", 1, 2, 2, True, True
        )

    def test_what_cannot_be_told_now_is_as_it_was(self):
        before = Reported(NOON, "running", 1, 2, 3, True, True)
        silent = Minute(NOON + 60, "unknown", epoch=1)
        assert said(before, silent, "unknown", LATE) == Reported(
            NOON + 60, "unknown", 1, 2, 3, True, True
        )

    def test_nothing_is_known_of_the_executors_of_another_driver(self):
        before = Reported(NOON, "running", 1, 2, 3)
        now = said(before, Minute(NOON + 60, "starting", epoch=2), "starting", LATE)
        assert (now.epoch, now.registered, now.requested) == (2, None, None)

    def test_no_executors_are_not_unknown_ones(self):
        before = Reported(NOON, "running", 1, 2, 3)
        now = said(before, replace(QUIET, registered=0, requested=0), "running", LATE)
        assert (now.registered, now.requested) == (0, 0)

    @pytest.mark.parametrize(
        ("ratio", "before", "after"),
        [
            *((0.99, False, False), (1.0, False, True)),
            *((0.8, True, True), (0.79, True, False), (0.0, True, False)),
            *((None, True, True), (None, False, False)),
        ],
    )
    def test_overload_begins_at_one_and_ends_well_below(self, ratio, before, after):
        told = replace(said(NOTHING, QUIET, "running", LATE), overloaded=before)
        assert said(told, replace(QUIET, ratio=ratio), "running", LATE).overloaded is after

    @pytest.mark.parametrize(
        ("lag", "before", "after"),
        [
            *((299.0, False, False), (300.0, False, True)),
            *((240.0, True, True), (239.0, True, False), (0.0, True, False)),
            *((None, True, True), (None, False, False)),
        ],
    )
    def test_so_does_being_late(self, lag, before, after):
        told = replace(said(NOTHING, QUIET, "running", LATE), late=before)
        assert said(told, replace(QUIET, lag=lag), "running", 300.0).late is after


@pytest.mark.parametrize(
    ("max_lag", "interval", "seconds"),
    [(None, 1.0, 60.0), (None, 6.0, 60.0), (None, 30.0, 300.0), (5.0, 30.0, 5.0), (0.0, 30.0, 0.0)],
)
def test_what_lag_is_news(max_lag, interval, seconds):
    assert late_from(max_lag, interval) == seconds


class TestOccasions:
    TOLD = Reported(FIRST, "running", 1, 2, 2)

    def now(self, **fields):
        return replace(self.TOLD, at=FIRST + 60, **fields)

    def test_the_first_look_is_one(self):
        assert why(NOTHING, self.now(), acts=True) == "first look"

    @pytest.mark.parametrize(
        ("fields", "text"),
        [
            ({"headline": "failed", "epoch": 2}, "running -> failed"),
            ({"epoch": 2, "registered": 0}, "driver 1 -> 2"),
            ({"epoch": None}, "driver 1 -> None"),
            ({"registered": 3, "overloaded": True}, "executors registered: 2 -> 3"),
            ({"registered": None}, "executors registered: 2 -> unknown"),
            ({"requested": 3, "overloaded": True}, "executors requested: 2 -> 3"),
            ({"requested": 0}, "executors requested: 2 -> 0"),
            ({"overloaded": True, "late": True}, "R reached 1"),
            ({"late": True}, "lag grew"),
            ({}, None),
        ],
    )
    def test_each_change_is_one(self, fields, text):
        assert why(self.TOLD, self.now(**fields)) == text

    @pytest.mark.parametrize(
        ("fields", "text"),
        [
            ({"overloaded": True}, "R is well below 1"),
            ({"late": True}, "lag shrank"),
            ({"registered": None}, "executors registered: unknown -> 2"),
        ],
    )
    def test_so_is_what_has_passed(self, fields, text):
        assert why(replace(self.TOLD, **fields), self.now()) == text

    def test_so_is_a_decision_and_says_so_before_the_executors(self):
        assert why(self.TOLD, self.now(), acts=True) == "decision"
        assert why(self.TOLD, self.now(registered=3), acts=True) == "decision"
        assert why(self.TOLD, self.now(epoch=2), acts=True) == "driver 1 -> 2"

    def test_so_is_the_outcome_of_a_check(self):
        assert why(self.TOLD, self.now(failing="running failed")) == "health"
        assert why(self.TOLD, self.now(late=True, failing="running failed")) == "lag grew"


class TestNowAndThen:
    def test_a_quiet_stream_is_told_of_every_ten_minutes_at_moments_of_its_own(self):
        found = walk([at(60 * n) for n in range(31)])
        assert found == ["first look", *([None] * 9 + ["as before"]) * 3]

    def test_what_happens_meanwhile_does_not_move_these_moments(self):
        found = walk([at(60 * n, registered=2 + (n >= 4)) for n in range(21)])
        told = [n for n, text in enumerate(found) if text]
        assert told == [0, 4, 10, 20]

    def test_a_clock_that_was_set_back_is_no_reason_to_be_silent(self):
        told = said(NOTHING, at(0), "running", LATE)
        assert why(told, replace(told, at=FIRST - 86400)) == "as before"

    @given(
        st.text(max_size=8),
        st.floats(1, 10**10),
        st.floats(-(10**5), 10**5),
        st.floats(1, 3600),
    )
    def test_none_waits_longer_than_its_pause(self, stream, before, gap, every):
        told = Reported(before, "running", 1, 2, 2)
        if why(told, replace(told, at=before + gap), stream, report_every=every) is None:
            assert abs(gap) < every + 1e-3

    def test_a_pause_of_a_minute_is_every_tick(self):
        assert None not in walk([at(60 * n) for n in range(20)], report_every=60.0)

    def test_a_thousand_streams_do_not_fall_into_one_tick(self):
        ticks = Counter()
        for number in range(1000):
            stream = f"stream_{number}"
            told = Reported(NOON, "running", 1, 2, 2)
            for tick in range(1, 11):
                now = replace(told, at=NOON + 60 * tick)
                if why(told, now, stream) is not None:
                    ticks[tick] += 1
                    told = now
        # 100 in each, as chance has it.
        assert sum(ticks.values()) == 1000
        assert len(ticks) == 10
        assert max(ticks.values()) < 150


waverings = st.lists(st.none() | st.floats(0.81, 1.2), min_size=1, max_size=30)


@given(waverings, waverings)
def test_what_wavers_around_a_threshold_is_told_once(ratios, lags):
    pairs = list(zip(ratios, lags, strict=False))
    found = walk(
        [
            at(n, ratio=ratio, lag=None if lag is None else lag * LATE)
            for n, (ratio, lag) in enumerate(pairs)
        ]
    )
    assert found[0] == "first look"
    assert len([text for text in found[1:] if text]) <= 2
    assert not {"R is well below 1", "lag shrank"} & set(found)


def test_overload_that_ends_and_comes_again_is_told_each_time():
    found = walk([at(n, ratio=ratio) for n, ratio in enumerate((0.5, 1.1, 0.9, 0.5, 0.9, 1.0))])
    assert found == ["first look", "R reached 1", None, "R is well below 1", None, "R reached 1"]


def test_a_look_that_tells_nothing_is_no_news_of_executors_or_load():
    silent = {"registered": None, "requested": None, "ratio": None, "lag": None}
    found = walk([at(0, ratio=1.5), at(60, **silent), at(120, ratio=1.5)])
    assert found == ["first look", None, None]
