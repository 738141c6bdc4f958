"""What came into a stream, by its own minutes."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_sparkscale.backtest.loads import Load, constant
from dagster_sparkscale.backtest.reconstruct import LEAST, per_batch, stretches, thinned
from dagster_sparkscale.backtest.simulate import Run, simulate
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
        slack = 0.03 * came + max(rates) * (5 if queues else 60) + failures * 10_000
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
