"""What came into a stream, by its own minutes."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_sparkscale.backtest.loads import Load, constant
from dagster_sparkscale.backtest.reconstruct import LEAST, per_batch, stretches, thinned
from dagster_sparkscale.backtest.simulate import Run, simulate
from dagster_sparkscale.observe.minutes import Minute
from tests.backtest.simulated import BOUNDS, At, application, daily

BEGAN = 1_000_000.0


def ran(load: Load, targets: dict[int, int] | None = None, ticks=None, **fields) -> Run:
    return simulate(
        application(**fields), load, At(targets or {}), BOUNDS, ticks=ticks, began_at=BEGAN
    )


def found(run: Run, **options):
    return stretches(run.minutes, run.application.workload, **options)


def compared(run: Run, seconds: float = 60.0) -> list[tuple[float, float]]:
    """Records per second as they were, and as they are reconstructed, of each minute or so."""
    (stretch,) = found(run)
    rates = []
    at = 0.0
    while at + seconds <= stretch.load.seconds:
        real = stretch.began_at - BEGAN + at
        came = run.load.arrived(real + seconds) - run.load.arrived(real)
        again = stretch.load.arrived(at + seconds) - stretch.load.arrived(at)
        rates.append((came / seconds, again / seconds))
        at += seconds
    return rates


@pytest.mark.parametrize("queues", [True, False], ids=["DStreams", "Structured Streaming"])
def test_the_load_of_a_stream_that_keeps_up(queues):
    for came, again in compared(ran(daily(1000, 0.7, seconds=3600), queues=queues)):
        assert again == pytest.approx(came, rel=0.01)


def test_the_load_while_batches_queue_and_after():
    load = Load("l", 60.0, (1000.0,) * 10 + (4000.0,) * 10 + (500.0,) * 40)
    for came, again in compared(ran(load)):
        assert again == pytest.approx(came, rel=0.02)


def test_batches_of_structured_streaming_that_take_longer_than_their_interval():
    load = Load("l", 60.0, (1000.0,) * 10 + (4000.0,) * 10 + (500.0,) * 40)
    rates = compared(ran(load, queues=False), seconds=300)
    assert sum(again for _, again in rates) == pytest.approx(
        sum(came for came, _ in rates), rel=0.03
    )
    assert all(again == pytest.approx(came, rel=0.4) for came, again in rates)


def test_what_a_limit_has_left_in_the_source_is_known_by_the_lag():
    load = Load("l", 60.0, (800.0,) * 10 + (2000.0,) * 10 + (500.0,) * 40)
    for came, again in compared(ran(load, max_records=10_000, tells_lag=True), seconds=300):
        assert again == pytest.approx(came, rel=0.08)


def test_or_by_the_backlog():
    load = Load("l", 60.0, (800.0,) * 10 + (2000.0,) * 10 + (500.0,) * 40)
    for came, again in compared(ran(load, max_records=10_000, queues=False), seconds=300):
        assert again == pytest.approx(came, rel=0.05)


def test_ticks_that_are_late_and_in_no_step_with_batches():
    ticks = [61.7 * number + (number % 3) for number in range(1, 100)]
    rates = compared(ran(constant(1000, 6400), ticks=ticks), seconds=300)
    assert all(again == pytest.approx(came, rel=0.04) for came, again in rates)


@given(
    st.lists(st.sampled_from([200.0, 1000, 2000, 3000]), min_size=20, max_size=40),
    st.booleans(),
    st.integers(0, 3),
)
@settings(max_examples=40, deadline=None)
def test_no_record_is_lost(rates, queues, failures):
    run = ran(
        Load("drawn", 60.0, tuple(rates)),
        queues=queues,
        batch_failures=failures / 20 if queues else 0.0,
    )
    for stretch in found(run):
        begin = stretch.began_at - BEGAN
        came = run.load.arrived(begin + stretch.load.seconds) - run.load.arrived(begin)
        # Minutes have three digits; and of Structured Streaming the last one's end is a guess.
        slack = 0.03 * came + max(rates) * (5 if queues else 60) + failures * 10 * max(rates)
        assert stretch.load.records == pytest.approx(came, abs=slack)


def test_a_burst_has_all_records_of_its_minute():
    (stretch,) = found(ran(Load("l", 30.0, (2000.0, 0.0) * 30)))
    rates = stretch.load.rates
    assert max(rates) == pytest.approx(2000, rel=0.01)
    assert sum(rate > 1900 for rate in rates) == pytest.approx(len(rates) / 2, abs=2)


def test_a_fullest_batch_among_others_is_one_of_them():
    # One of six has 1.25 times the mean.
    (stretch,) = found(ran(Load("l", 10.0, (950, 950, 950, 1250, 950, 950) * 30)))
    assert max(stretch.load.rates) == pytest.approx(1250, rel=0.01)
    assert sorted(stretch.load.rates)[len(stretch.load.rates) // 2] == pytest.approx(950, rel=0.02)


class TestGaps:
    RUN = ran(constant(1000, 3600))

    def test_without_one_it_is_one_stretch(self):
        (stretch,) = found(self.RUN)
        assert stretch.minutes == self.RUN.minutes
        assert stretch.ticks[0] == pytest.approx(10)
        assert stretch.load.mean == pytest.approx(1000, rel=0.01)

    def of(self, minutes):
        return [len(each.minutes) for each in stretches(minutes, application().workload)]

    def test_minutes_that_are_missing_are_a_gap(self):
        assert self.of(self.RUN.minutes[:20] + self.RUN.minutes[23:]) == [20, 37]
        assert self.of(self.RUN.minutes[:20] + self.RUN.minutes[22:]) == [58]

    def test_so_are_those_of_which_nothing_is_known(self):
        for blank in ({"completed": None}, {"registered": None}):
            unknown = replace(self.RUN.minutes[30], **blank)
            assert self.of([*self.RUN.minutes[:30], unknown, *self.RUN.minutes[31:]]) == [30, 29]

    def test_another_driver_is_another_stretch(self):
        later = [replace(each, epoch=2) for each in self.RUN.minutes[40:]]
        assert self.of([*self.RUN.minutes[:40], *later]) == [40, 20]

    def test_a_few_minutes_by_themselves_are_left_out(self):
        assert self.of(self.RUN.minutes[: LEAST - 1]) == []

    def test_nothing_is_known_of_nothing(self):
        assert self.of([]) == []


class TestDoubt:
    def doubtful(self, run: Run, **options) -> list[int]:
        (stretch,) = found(run, **options)
        return [index for index, each in enumerate(run.minutes) if each.at in stretch.doubtful]

    def test_a_minute_at_its_limit(self):
        load = Load("l", 60.0, (500.0,) * 10 + (2000.0,) * 5 + (100.0,) * 15)
        doubtful = self.doubtful(ran(load, max_records=10_000, tells_lag=True))
        assert set(range(11, 15)) <= set(doubtful) <= set(range(10, 30))

    def test_a_minute_at_the_maximum_whose_batches_take_too_long(self):
        load = Load("l", 60.0, (500.0,) * 10 + (3000.0,) * 5 + (500.0,) * 25)
        assert self.doubtful(ran(load)) == []
        assert self.doubtful(ran(load), maximum=5) == []
        found = self.doubtful(ran(load), maximum=4)
        assert set(range(11, 15)) <= set(found) <= set(range(10, 25))


def test_minutes_of_longer_windows_that_overlap_are_thinned():
    run = ran(constant(1000, 3600))
    assert [each.at for each in thinned(run.minutes, 300.0)][:3] == [
        1_000_060,
        1_000_360,
        1_000_660,
    ]
    assert thinned(run.minutes, 60.0) == list(run.minutes)


def test_the_records_of_a_batch():
    minute = ran(constant(1000, 600)).minutes[-1]
    assert per_batch(minute) == pytest.approx(10_000, rel=0.01)
    assert per_batch(replace(minute, input_rate=0)) == 0
    for name in ("completed", "input_rate", "processing_ms", "processed_rate"):
        assert per_batch(replace(minute, **{name: None})) is None


def made(at: float, records: float, **fields) -> Minute:
    """A minute of batches of 10 s that took 2 s, of so many records each."""
    plain = Minute(
        *(int(BEGAN + at), "running", 1),
        ratio=0.2,
        registered=4,
        requested=4,
        processing_ms=2000,
        input_rate=records / 10,
        processed_rate=records / 2,
        completed=6,
        pending=1,
    )
    return replace(plain, **fields)


def rates_of(minutes) -> list[float]:
    """The reconstructed records per second of each batch interval."""
    (stretch,) = stretches(minutes, application().workload)
    return [round(rate, 6) for rate in stretch.load.rates]


class TestByHand:
    """Minutes that were written by hand, of which the second one alone is of interest."""

    REST = tuple(made(60.0 * number, 1000) for number in range(2, 13))

    def test_the_batches_of_a_minute_are_those_of_its_intervals(self):
        minutes = [made(0, 1), made(60, 3000), *self.REST]
        assert rates_of(minutes) == [300] * 6 + [100] * 66
        (stretch,) = stretches(minutes, application().workload)
        # One batch was pending when the first minute was over.
        assert stretch.began_at == BEGAN - 10

    def test_batches_that_are_pending_come_with_later_minutes(self):
        # Three of those that were due wait; in the next minute nine are done.
        minutes = [
            made(0, 1),
            *(made(60, 3000, completed=3, pending=4), made(120, 2000, completed=9)),
            *self.REST[1:],
        ]
        assert rates_of(minutes) == [300] * 3 + [200] * 9 + [100] * 60

    def test_a_minute_without_a_batch_has_what_later_ones_bring(self):
        nothing = made(60, 0, completed=0, processing_ms=None, pending=7)
        minutes = [made(0, 1), nothing, made(120, 2000, completed=12), *self.REST[1:]]
        assert rates_of(minutes) == [200] * 12 + [100] * 60

    def test_a_batch_of_dstreams_that_failed_had_records_too(self):
        minutes = [made(0, 1), made(60, 3000, completed=4, failed=2), *self.REST]
        assert rates_of(minutes) == [300] * 6 + [100] * 66

    def test_a_failure_of_structured_streaming_took_none(self):
        plain = [replace(each, pending=None) for each in (made(0, 1), *self.REST)]
        failed = made(60, 3000, pending=None, failed=2)
        assert rates_of([plain[0], failed, *plain[1:]]) == [300] * 6 + [100] * 66

    def test_a_backlog_that_grows_has_come_as_well(self):
        plain = [replace(each, pending=None, backlog=6000) for each in self.REST]
        minutes = [
            made(0, 1, pending=None, backlog=0),
            made(60, 3000, pending=None, backlog=6000),
            *plain,
        ]
        assert rates_of(minutes) == [400] * 6 + [100] * 66
        # One that shrinks by more than was done can't be: what came is nothing, not less.
        minutes[0] = replace(minutes[0], backlog=90_000)
        assert rates_of(minutes) == [0] * 6 + [100] * 66

    def test_by_a_lag_it_came_so_much_earlier(self):
        lagging = made(60, 3000, lag=30)
        rest = [replace(each, lag=30) for each in self.REST]
        # 18,000 records came within 30 s.
        assert rates_of([made(0, 1, lag=0), lagging, *rest]) == [600] * 3 + [100] * 66
        # With a lag the backlog counts no second time.
        structured = [replace(each, pending=None, backlog=99) for each in (lagging, *rest)]
        first = made(0, 1, lag=0, pending=None, backlog=0)
        assert rates_of([first, *structured]) == [600] * 3 + [100] * 66

    def test_a_batch_longer_than_its_interval_began_some_time_before(self):
        (stretch,) = stretches(
            [replace(made(0, 1, processing_ms=20_000), pending=None)]
            + [replace(each, pending=None) for each in self.REST],
            application().workload,
        )
        assert stretch.began_at == BEGAN - 30

    def test_the_fullest_batch_is_in_the_middle(self):
        minutes = [made(0, 1), made(60, 1000, peak_rate=125), *self.REST]
        assert rates_of(minutes)[:7] == [95, 95, 125, 95, 95, 95, 100]

    def test_a_burst_is_as_long_as_it_must_be(self):
        minutes = [made(0, 1), made(60, 1000, peak_rate=150), *self.REST]
        assert rates_of(minutes)[:7] == [0, 150, 150, 150, 150, 0, 100]
        minutes[1] = made(60, 1000, peak_rate=300)
        assert rates_of(minutes)[:7] == [0, 0, 300, 300, 0, 0, 100]

    def test_a_peak_that_is_none_changes_nothing(self):
        for peak in (None, 90.0, 102.0):
            minutes = [made(0, 1), made(60, 1000, peak_rate=peak), *self.REST]
            assert rates_of(minutes)[:6] == [100] * 6

    def test_two_ticks_at_once_are_one(self):
        minutes = [made(0, 1), made(60, 3000), made(62, 500, completed=1), *self.REST]
        records = sum(rates_of(minutes)) * 10
        assert records == pytest.approx(6 * 3000 + 500 + 11 * 6000, rel=0.01)


def test_minutes_of_which_less_than_one_is_known_are_left_out():
    minutes = [replace(made(59.0 * n, 60.0), at=int(BEGAN) + 59 * n) for n in range(LEAST + 5)]
    minutes[2:] = [replace(each, completed=0) for each in minutes[2:]]
    workload = application(batch_interval=1.0).workload
    assert stretches(minutes, workload, window=60.0) == []
    assert len(stretches(minutes, workload, window=50.0)) == 1
