"""An application by a stream's own minutes."""

from dataclasses import replace
from functools import cache

import pytest

from dagster_sparkscale.backtest.calibrate import Calibration, Uncalibrated, calibrate
from dagster_sparkscale.backtest.loads import Load, constant
from dagster_sparkscale.backtest.simulate import Run, simulate
from dagster_sparkscale.observe.minutes import Minute
from tests.backtest.simulated import BOUNDS, Always, By, application, daily


class Wavering(By):
    """Ask for 4, 5, 7 and 10 executors in turn, each for so many minutes."""

    def __init__(self, minutes: int = 8) -> None:
        steps = {4: 5, 5: 7, 7: 10, 10: 4}

        def target(seen):
            turn = round(seen.uptime / 60) % minutes == 0
            return steps[seen.requested] if turn else seen.requested

        super().__init__(target)


@cache
def ran(load: Load | None = None, decider=None, ticks=None, **fields) -> Run:
    """Ten hours of a load that rises and falls, on executors that change."""
    app = application(**{"noise": 0.05} | fields)
    by = decider or Wavering()
    return simulate(app, load or daily(1500, 0.7), by, BOUNDS, ticks=ticks, began_at=1e9)


def calibrated(run: Run, minutes=None, **options) -> Calibration:
    found = calibrate(minutes or run.minutes, run.application.workload, **options)
    assert isinstance(found, Calibration), found
    return found


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"queues": False},
        {"overhead": 3.0, "work": 0.002},
        {"shards": 30, "partitions": None, "tasks_per_shard": 1.5},
        {"pinned": 3},
        {"waves": False, "serial": 0.15, "partitions": 1000},
        {"start_delay": 100.0},
    ],
)
def test_an_application_is_found_again(fields):
    run = ran(**fields)
    found = calibrated(run).application
    real = run.application
    assert (found.queues, found.shards, found.workload) == (real.queues, real.shards, real.workload)
    assert found.noise == pytest.approx(0.05, rel=0.2)
    assert found.start_delay == pytest.approx(real.start_delay, abs=6)
    for executors in (3, 6, 12):
        for records in (10_000, 30_000):
            assert found.seconds(records, executors) == pytest.approx(
                real.seconds(records, executors), rel=0.08
            )


def test_what_was_measured_says_how_well():
    found = calibrated(ran())
    assert found.assumed == ()
    assert found.minutes > 400
    # Six batches a minute.
    assert found.error == pytest.approx(0.05 / 6**0.5, rel=0.2)
    assert found.doubtful == 0


def test_a_limit_that_holds_all_the_time_is_found():
    assert calibrated(ran(max_records=26_000)).application.max_records == pytest.approx(
        26_000, rel=0.01
    )
    run = ran(max_records=26_000)
    some = [replace(each, limit=None) for each in run.minutes[:400]]
    assert calibrated(run, [*some, *run.minutes[400:]]).application.max_records is None
    other = [replace(each, limit=5000) for each in run.minutes[:100]]
    assert calibrated(run, [*other, *run.minutes[100:]]).application.max_records is None


def test_whether_the_source_tells_its_lag_is_found():
    assert calibrated(ran(tells_lag=True)).application.tells_lag
    assert not calibrated(ran()).application.tells_lag


def test_a_batch_interval_other_than_declared_is_found():
    run = ran(batch_interval=5.0, overhead=0.3, work=0.0016)
    found = calibrate(run.minutes, replace(run.application.workload, batch_interval=10.0))
    assert isinstance(found, Calibration)
    assert found.application.interval == 5.0


def test_minutes_whose_executors_were_changing_do_not_count():
    plain = ran()
    wrong = []
    for last, minute in zip((None, *plain.minutes), plain.minutes, strict=False):
        certain = last is not None and {
            *(last.registered, last.requested, minute.registered, minute.requested)
        } == {minute.registered}
        wrong.append(minute if certain else _slow(minute))
    found = calibrated(plain, wrong).application
    right = calibrated(plain).application
    assert (found.overhead, found.work, found.noise) == (right.overhead, right.work, right.noise)


def _slow(minute: Minute) -> Minute:
    """A minute whose batches took five times as long."""
    return replace(
        minute,
        processing_ms=5 * (minute.processing_ms or 0),
        processed_rate=(minute.processed_rate or 0) / 5,
        ratio=5 * (minute.ratio or 0),
    )


def test_single_minutes_that_are_far_off_do_not_count():
    run = ran()
    odd = [_slow(each) if index % 100 == 50 else each for index, each in enumerate(run.minutes)]
    found, right = calibrated(run, odd).application, calibrated(run).application
    assert found.seconds(20_000, 6) == pytest.approx(right.seconds(20_000, 6), rel=0.05)


def test_minutes_of_a_long_interval_overlap_and_are_taken_once():
    run = ran(decider=Wavering(10))
    ticks = tuple(300.0 * number for number in range(1, 121))
    long = ran(decider=Always(), ticks=ticks)
    found = calibrated(run, [*run.minutes], window=300.0)
    assert found.minutes < 120
    assert len(long.minutes) == 120
    assert calibrated(long, window=300.0).assumed != ()


class TestWhatIsAssumed:
    def test_executors_that_never_changed(self):
        found = calibrated(ran(decider=Always()))
        assert found.assumed == (
            "executors were always 4: that more or fewer would share the work evenly is assumed",
            "no minute shows how long executors take to start: 30 s is assumed",
        )
        assert found.application.start_delay == 30.0

    def test_tasks_that_did(self):
        run = ran(shards=20, partitions=None)
        fewer = [replace(each, shards=10) for each in run.minutes[:200]]
        found = calibrated(run, [*fewer, *run.minutes[200:]])
        assert found.assumed == (
            "batches had 10 to 20 tasks: they are assumed to have as many as at the end",
        )
        assert found.application.shards == 20


class TestRefused:
    def why_not(self, minutes, **options) -> str:
        found = calibrate(minutes, application().workload, **options)
        assert isinstance(found, Uncalibrated)
        return found.reason

    def test_nothing(self):
        assert self.why_not([]).startswith("0 minutes have batches and executors that did not")

    def test_too_few_minutes(self):
        assert self.why_not(ran().minutes[:25]).endswith("at least 30 are needed")

    def test_executors_that_are_never_certain(self):
        minutes = [replace(each, requested=20) for each in ran().minutes]
        assert self.why_not(minutes).startswith("0 minutes")

    def test_a_load_that_never_changes(self):
        run = ran(constant(1500, 7200), Always())
        assert self.why_not(run.minutes).startswith(
            "batches had nearly the same work for each executor all the time: 1.00 times as much"
        )

    def test_records_that_cost_nothing(self):
        run = ran(decider=Always(), work=0.0)
        assert self.why_not(run.minutes) == (
            "batches take hardly longer with more records: what these cost is not known"
        )

    def test_a_stream_without_records(self):
        assert self.why_not(ran(constant(0, 7200), Always()).minutes).startswith("0 minutes")
