"""Whether sources take their limits, and the limits of receivers."""

import pytest

from dagster_sparkscale.driver.backpressure.limiter import MOST_SOURCES
from dagster_sparkscale.driver.backpressure.plan import EstimatorPlan
from dagster_sparkscale.driver.batches.reports import DoneBatch, Input
from dagster_sparkscale.driver.wire import Batch
from tests.driver.backpressure.limited import BEGAN, RATE, RECORDS, Stream, clicks, received


class TestTaken:
    def test_a_source_that_says_which_limit_it_kept_to_confirms_it(self):
        stream = Stream(given={"clicks": {RATE: 10}})
        stream.batch(clicks(10, 10))
        assert stream.limit().taken is True
        stream.batch(clicks(3, 7))
        assert stream.limit().taken is True, "its own is smaller"
        stream.batch(clicks(50, 50))
        assert stream.limit().taken is False
        stream.batch(clicks(50, None))
        assert stream.limit().taken is False, "it keeps to none"
        stream.batch(clicks(10, tells=False))
        assert stream.limit().taken is None, "it does not say"

    def test_a_batch_that_was_planned_before_is_judged_by_what_was_in_force_then(self):
        stream = Stream(given={"clicks": {RATE: 1000}})
        stream.batch(clicks(1000, 1000))
        stream.now += 0.7
        stream.set(clicks={RATE: 10})
        stream.now -= 0.7
        stream.batch(clicks(1000, 1000))  # began half a second before its end
        assert stream.limit().taken is True
        stream.batch(clicks(1000, 1000))
        assert stream.limit().taken is False
        stream.batch(clicks(10, 10))
        assert stream.limit().taken is True

    def test_without_a_limit_there_is_nothing_to_take(self):
        stream = Stream(given={"clicks": {RATE: 10}})
        stream.batch(clicks(10, 10))
        stream.set()
        assert stream.limit().taken is None

    def test_a_receiver_confirms_its_limit_by_what_it_brings(self):
        stream = Stream(given={"receiver-0": {RATE: 100}}, interval_ms=10_000)
        stream.batch(received(9999), queues=True)
        stream.limiter.noted(0, 100.0)
        stream.batch(received(9999), queues=True)
        assert stream.limit("receiver-0").taken is None, "it had none in a part of that"
        stream.batch(received(0), queues=True)
        assert stream.limit("receiver-0").taken is None, "it has shown nothing"
        stream.batch(received(1100), queues=True)
        assert stream.limit("receiver-0").taken is True
        stream.batch(received(5000), queues=True)
        assert stream.limit("receiver-0").taken is False
        for _ in range(3):
            stream.batch(received(1000), queues=True)
        assert stream.limit("receiver-0").taken is True

    def test_a_batch_that_waited_is_judged_by_the_limits_of_its_time(self):
        stream = Stream(given={"receiver-0": {RATE: 100}}, interval_ms=10_000)
        stream.limiter.noted(0, 100.0)
        stream.now += 60
        stream.limiter.noted(0, 5.0)
        formed = round(1000 * (BEGAN + 30))
        batch = Batch("q", completed_at=stream.now, processing_ms=9, records=1000, batch_id=formed)
        assert stream.limiter.limit_of(DoneBatch(batch, 10_000, (received(1000),), True)) == 1000


class TestLimitOfABatch:
    def test_it_is_what_its_sources_kept_to(self):
        stream = Stream()
        assert stream.batch(clicks(5, 10), clicks(5, 20, source="b")).limit == 30
        assert stream.batch(clicks(5, 10), clicks(5, None, source="b")).limit is None
        assert stream.batch(clicks(5, 10), Input(None, 5)).limit is None
        assert stream.batch().limit is None

    def test_of_receivers_it_is_what_they_were_told(self):
        stream = Stream(EstimatorPlan(), interval_ms=4000, receivers_begin=50.0)
        given = received(200, 0), received(200, 1)
        assert stream.batch(*given, queues=True).limit == 400, "that is what Spark's settings say"
        for each in (0, 1):
            stream.limiter.noted(each, 75.0)
        stream.batch(*given, queues=True)
        assert stream.batch(*given, queues=True).limit == 600
        stream.limiter.noted(1, None)
        stream.batch(*given, queues=True)
        assert stream.batch(*given, queues=True).limit is None

    def test_receivers_never_take_more_than_spark_s_settings_say(self):
        stream = Stream(EstimatorPlan(), receivers_begin=500.0, receivers_most=80.0)
        assert stream.batch(received(80), queues=True).limit == 80
        stream.limiter.noted(0, 1000.0)
        stream.batch(received(80), queues=True)
        assert stream.batch(received(80), queues=True).limit == 80


def test_a_receiver_without_a_limit_goes_back_to_what_spark_s_settings_say():
    stream = Stream(receivers_begin=50.0, receivers_free=70.0)
    stream.limiter.noted(0, 5.0)
    stream.batch(received(5), queues=True)
    assert stream.batch(received(5), queues=True).limit == 5
    stream.limiter.noted(0, None)
    stream.batch(received(70), queues=True)
    assert stream.batch(received(70), queues=True).limit == 70
    assert not stream.limiter.has_receivers_to_tell
    assert Stream(receivers_held=True).limiter.has_receivers_to_tell


def test_there_is_something_to_tell_receivers_while_a_limit_is_or_was_there():
    assert not Stream().limiter.has_receivers_to_tell
    assert Stream(EstimatorPlan()).limiter.has_receivers_to_tell
    stream = Stream(given={"receiver-0": {RATE: 5}})
    assert stream.limiter.has_receivers_to_tell
    stream.limiter.noted(0, 5.0)
    stream.set(clicks={RECORDS: 5})
    assert stream.limiter.has_receivers_to_tell, "it has to be told that there is none"
    stream.limiter.noted(0, None)
    assert not stream.limiter.has_receivers_to_tell


def test_a_limit_that_is_not_set_any_more_is_lifted_from_receivers_that_are_started_anew():
    # The driver began with that limit, so Spark gives it to each receiver that it starts.
    stream = Stream(given={"receiver-0": {RATE: 5}}, receivers_begin=5.0)
    stream.limiter.noted(0, 5.0)
    stream.set()
    stream.limiter.noted(0, None)
    assert stream.limiter.has_receivers_to_tell
    assert stream.limiter.receivers([0], "dstream") == {0: None}


def test_a_first_rate_of_spark_s_settings_alone_is_left_to_spark():
    stream = Stream(receivers_begin=5.0)
    assert not stream.limiter.has_receivers_to_tell
    stream.set(clicks={RATE: 5})
    stream.set()
    assert not stream.limiter.has_receivers_to_tell


def test_names_that_programs_make_up_do_not_pile_up():
    stream = Stream(EstimatorPlan())
    for number in range(2 * MOST_SOURCES):
        stream.batch(clicks(1, source=f"s{number}"), query=f"q{number}")
    assert len(stream.limiter.limits()) == MOST_SOURCES
    assert len(stream.file) == MOST_SOURCES + 1


@pytest.mark.parametrize("rate", [1.0, 1.9, 3.5, 12.6, 17.9, 39.9])
def test_a_receiver_reaches_its_limit_however_low_it_is(rate):
    """It takes a whole number of records per second: what it is told, what its batches' limit says
    and what is shown are one number."""
    stream = Stream(EstimatorPlan(min_rate=rate, initial_rate=rate), interval_ms=5000)
    told = stream.limiter.receivers([0], "dstream")
    assert told == {0: int(rate)}
    stream.limiter.noted(0, told[0])
    for _ in range(3):
        batch = stream.batch(received(5 * int(rate)), queues=True)
    assert batch.limit == batch.records
    stated = stream.limit("receiver-0")
    assert (stated.rate, stated.taken) == (stream.limiter.receivers([0], "q")[0], True)


def test_no_receiver_is_told_less_than_a_record_a_second():
    """Spark takes 0 for no limit at all."""
    stream = Stream(EstimatorPlan(min_rate=0.2))
    assert stream.limiter.receivers([0], "dstream") == {0: 1}


@pytest.mark.parametrize("task_cpus", [1, 2])
def test_receivers_take_cores_that_batches_do_not_have(task_cpus):
    """Of 5 executors of 4 cores to 2: from 15 cores for batches to 3, and not to two fifths."""
    stream = Stream(EstimatorPlan(min_rate=5))
    stream.limiter.task_cpus = task_cpus
    stream.limiter.receivers(range(5), "q")
    five = [received(500, number) for number in range(5)]
    stream.limiter.cores = 20
    for _ in range(20):
        stream.batch(*five, ms=900, queues=True)
    before = stream.limit("receiver-0").estimate
    stream.limiter.cores = 8
    stream.batch(*(received(0, number) for number in range(5)), ms=10, queues=True)
    fewer = (8 - 5 * task_cpus if task_cpus == 1 else 1) / (20 - 5 * task_cpus)
    assert stream.limit("receiver-0").estimate == pytest.approx(fewer * before, rel=0.05)
