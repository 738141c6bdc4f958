"""What the minutes of a stream say of what it sustains."""

import pytest

from dagster_sparkscale.backpressure.throughput import Sustained, quantile, sustained
from tests.backpressure.histories import INTERVAL, but, minute, minutes


def seen(history, interval: float = INTERVAL) -> Sustained:
    found = sustained(history, interval)
    assert isinstance(found, Sustained), found
    return found


def why_not(history, interval: float = INTERVAL) -> str:
    found = sustained(history, interval)
    assert isinstance(found, str)
    return found


def test_it_is_told_by_executor_and_second_of_processing():
    found = seen(minutes())
    assert (found.low, found.high, found.executors) == (500, 500, 2)
    assert (found.fewest, found.most, found.largest_batch) == (2, 2, 7000)
    assert (found.input_rate, found.input_peak) == (700, 700)
    assert (found.hours, found.loaded, found.tiny) == (pytest.approx(477 / 60), 477, 0)


def test_a_tenth_is_below_what_is_low_and_a_tenth_above_what_is_high():
    speeds = [100 * (1 + number % 10) for number in range(480)]
    history = [minute(n, processed_rate=2 * speed) for n, speed in enumerate(speeds)]
    found = seen(history)
    assert (found.low, found.high) == (200, 1000)


def test_the_first_minutes_of_each_driver_do_not_count():
    slow = minutes(3, processed_rate=1) + minutes(237, first=3)
    again = minutes(3, first=240, epoch=2, processed_rate=1) + minutes(237, first=243, epoch=2)
    found = seen(slow + again)
    assert found.low == 500
    assert found.notes == ("6 minutes of starts were left out",)


def test_nor_do_minutes_with_failed_batches_or_with_executors_that_come_and_go():
    history = but(minutes(), range(100, 160), failed=1, processed_rate=1)
    history = but(history, [200, 201], registered=4, processed_rate=8000)
    found = seen(history)
    # The second minute with four executors is as good as any.
    assert (found.low, found.most) == (500, 4)
    assert "60 minutes with failed batches were left out" in found.notes
    assert "2 minutes in which executors came or went were left out" in found.notes


@pytest.mark.parametrize(
    "name", ["ratio", "registered", "processed_rate", "input_rate", "processing_ms"]
)
def test_what_was_not_measured_is_no_zero(name):
    half = range(0, 480, 2)
    found = seen(but(minutes(900), half, **{name: None}))
    assert (found.low, found.fewest, found.input_rate) == (500, 2, 700)
    assert "not enough history: 0.0 h with work and 0 batches" in why_not(
        minutes(480, **{name: None})
    )


@pytest.mark.parametrize("state", ["starting", "failed", "stopped", "unknown"])
def test_only_a_driver_that_runs_says_something(state):
    assert "0.0 h with work" in why_not(minutes(state=state))


def test_where_nothing_is_to_be_added_nothing_is():
    few = but(minutes(100), range(3), ratio=None)
    assert why_not(few).endswith("it needs 6 h and 100 batches")
    lazy = but(minutes(ratio=0.0), range(3), ratio=None)
    assert why_not(lazy).endswith("its highest R was 0.00")


def test_less_than_six_hours_with_work_are_not_enough():
    assert why_not(minutes(362)) == (
        "not enough history: 6.0 h with work and 2154 batches; it needs 6 h and 100 batches "
        "(3 minutes of starts were left out)"
    )
    seen(minutes(363))


def test_nor_are_few_batches():
    assert "with work and 0 batches" in why_not(minutes(completed=0))
    assert "with work and 0 batches" in why_not(minutes(completed=None))
    assert "and 99 batches" in why_not(but(minutes(completed=0), range(100, 199), completed=1))
    seen(but(minutes(completed=0), range(100, 200), completed=1))


def test_idle_minutes_are_no_work_and_say_nothing():
    idle = minutes(10_000, input_rate=0, processed_rate=None, ratio=0.0)
    assert "0.0 h with work" in why_not(idle)
    assert seen(minutes() + minutes(10_000, 480, input_rate=0, processed_rate=None)).low == 500


def test_a_stream_that_never_has_much_to_do_does_not_say_what_it_could_do():
    assert why_not(minutes(ratio=0.3)) == (
        "not enough history: of 8.0 h with work 0 minutes had an R of at least 0.5, or half of the "
        "input that the limits allow, and 30 are needed to tell what the stream sustains; its "
        "highest R was 0.30 (3 minutes of starts were left out)"
    )
    quiet = minutes(ratio=0.3, processed_rate=10)
    assert "of 8.0 h with work 29 minutes" in why_not(but(quiet, range(100, 129), ratio=0.5))
    found = seen(but(quiet, range(100, 130), ratio=0.5, processed_rate=1000))
    assert (found.low, found.loaded) == (500, 30)


@pytest.mark.parametrize("loaded", [{"limit": 1400}, {"throttled": "counts"}])
def test_near_its_limit_it_is_loaded_whatever_its_ratio(loaded):
    assert seen(minutes(ratio=0.2, **loaded)).loaded == 477


def test_far_from_its_limit_it_is_not():
    assert "0 minutes had an R" in why_not(minutes(ratio=0.2, limit=1401))


def test_with_a_long_interval_each_minute_with_a_batch_stands_for_more():
    history = [minute(10 * number, completed=1) for number in range(120)]
    found = seen(history, interval=600)
    assert (found.hours, found.loaded) == (pytest.approx(119 / 6), 119)
    quiet = [minute(10 * number, completed=1, ratio=0.2) for number in range(120)]
    assert "of 19.8 h with work 2 minutes" in why_not(but(quiet, [50, 60], ratio=0.5), 600)
    assert seen(but(quiet, [50, 60, 70], ratio=0.5), 600).loaded == 3


def test_gaps_are_told():
    history = minutes(240) + minutes(240, first=240 + 60 * 13)
    assert seen(history).notes[0] == "1 gaps of 13.0 h in all, the longest 13.0 h"
    long = minutes(240) + minutes(240, first=60_240) + minutes(9, first=60_490)
    assert seen(long).notes[0] == "2 gaps of 1000.2 h in all, the longest 1000.0 h"
    assert seen(minutes(240) + minutes(240, first=249)).notes == seen(minutes()).notes, "10 min"
    assert seen(minutes(240) + minutes(240, first=248)).notes == (
        "3 minutes of starts were left out",
    )


def test_minutes_at_the_limit_are_counted():
    assert seen(but(minutes(), range(100, 140), throttled="counts")).throttled == 40


def test_tiny_batches_take_time_and_do_little():
    small = {"ratio": 0.3, "processed_rate": 100, "input_rate": 30}
    found = seen(but(minutes(), range(100, 480), **small))
    assert found.tiny == pytest.approx(380 / 477)
    at_least = seen(but(minutes(), range(100, 480), **small | {"ratio": 0.2}))
    assert at_least.tiny == found.tiny
    assert seen(but(minutes(), range(100, 480), **small | {"processed_rate": 200})).tiny == 0
    cheap = seen(but(minutes(), range(100, 480), **small | {"ratio": 0.19}))
    assert cheap.tiny == 0, "nobody minds them"
    assert found.low == 500


@pytest.mark.parametrize(("share", "value"), [(0, 1), (0.1, 2), (0.5, 6), (0.95, 10), (1, 10)])
def test_a_quantile_is_one_of_the_values(share, value):
    assert quantile(range(1, 11), share) == value
