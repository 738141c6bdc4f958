"""Which limits are in force, and what batches have to do with that."""

from dataclasses import replace

import pytest

from dagster_sparkscale.driver.backpressure.limiter import MOST_SOURCES, Limiter
from dagster_sparkscale.driver.backpressure.plan import EstimatorPlan
from dagster_sparkscale.driver.batches.reports import Input
from dagster_sparkscale.driver.wire import Batch, Limit

RECORDS, RATE, SPAN = "maxRecordsPerTrigger", "maxRate", "maxSpanPerTrigger"
BEGAN = 1_000_000.0
"""When each of these drivers began, seconds since the epoch."""


class Stream:
    """A stream whose sources take all that they may, and how long its batches take."""

    def __init__(self, plan=None, given=None, interval_ms=1000, declared_ms=1000, **begin):
        self.now = BEGAN
        self.limiter = Limiter(declared_ms, clock=lambda: self.now)
        self.limiter.begin(plan, **begin)
        self.interval_ms, self.given, self.batches = interval_ms, given or {}, 0
        self.file = self.limiter.content(self.given)

    def set(self, **given):
        self.given = given
        self.file = self.limiter.content(given)

    def batch(self, *inputs, ms=500, queues=False, query="q", **fields):
        """A batch is planned, done and told of; the file is written anew."""
        self.now += self.interval_ms / 1000
        self.batches += 1
        batch = Batch(
            query,
            completed_at=self.now,
            processing_ms=ms,
            scheduling_ms=0,
            records=sum(each.records for each in inputs),
            batch_id=round(self.now * 1000) if queues else self.batches,
            **fields,
        )
        limit = self.limiter.limit_of(batch, self.interval_ms, inputs, queues)
        batch = replace(batch, limit=limit)
        self.limiter.completed(batch, self.interval_ms, inputs, queues)
        self.file = self.limiter.content(self.given)
        return batch

    def limit(self, source="clicks") -> Limit:
        return next(each for each in self.limiter.limits() if each.source == source)


def clicks(records, limit=None, tells=True, source="clicks"):
    return Input(source, records, limit, tells)


def received(records, stream=0):
    return Input(f"receiver-{stream}", records, receiver=True)


class TestSet:
    def test_without_anything_nothing_is_limited(self):
        stream = Stream()
        stream.batch(clicks(5))
        assert stream.file == {}
        assert stream.limit() == Limit("clicks", "q", records=5, processing_ms=500, scheduling_ms=0)

    def test_what_is_set_is_handed_on_as_it_is(self):
        given = {"clicks": {RECORDS: 7, SPAN: 1.5}, "orders": {"maxBytesPerTrigger": 9}}
        assert Stream(given=given).file == given

    def test_a_rate_is_records_of_a_batch(self):
        assert Stream(given={"clicks": {RATE: 2.5}}, declared_ms=2000).file == {
            "clicks": {RECORDS: 5}
        }
        assert Stream(given={"clicks": {RATE: 0.1}}).file == {"clicks": {RECORDS: 1}}
        assert Stream(given={"clicks": {RATE: 100}}, declared_ms=290).file == {
            "clicks": {RECORDS: 29}
        }

    def test_a_rate_goes_by_the_interval_that_the_query_really_has(self):
        stream = Stream(given={"clicks": {RATE: 10}}, interval_ms=5000)
        assert stream.file == {"clicks": {RECORDS: 10}}
        stream.batch(clicks(10))
        assert stream.file == {"clicks": {RECORDS: 50}}

    @pytest.mark.parametrize(("rate", "records"), [(3, 3), (9, 7)])
    def test_of_two_limits_the_smaller_one_is_in_force(self, rate, records):
        stream = Stream(given={"clicks": {RATE: rate, RECORDS: 7, SPAN: 2}})
        assert stream.file == {"clicks": {RECORDS: records, SPAN: 2}}
        assert (stream.limit().rate, stream.limit().by) == (records, "set")

    def test_what_is_set_for_all_is_for_those_that_are_not_named(self):
        stream = Stream(given={"*": {RATE: 5}, "clicks": {SPAN: 2}})
        assert stream.file == {"*": {RECORDS: 5}, "clicks": {SPAN: 2}}
        stream.batch(clicks(9), clicks(5, 5, source="orders"))
        assert (stream.limit().rate, stream.limit("orders").rate) == (None, 5)
        assert stream.limiter.receivers([0, 1], "dstream") == {0: 5, 1: 5}

    def test_receivers_are_told_and_look_nothing_up(self):
        stream = Stream(given={"receiver-0": {RATE: 5}, "clicks": {RECORDS: 5}})
        assert stream.file == {"clicks": {RECORDS: 5}}
        assert stream.limiter.receivers([0, 1], "dstream") == {0: 5, 1: None}
        stream.set(**{"receiver-0": {RATE: 7}})
        assert stream.limiter.receivers([0, 1], "dstream") == {0: 7, 1: None}

    def test_it_is_told_of_what_was_set_for_a_source_that_nobody_has_seen(self):
        stream = Stream(given={"typo": {RATE: 5}})
        assert stream.limiter.limits() == (Limit("typo", rate=5, by="set"),)


class TestEstimates:
    def test_before_the_first_batch_each_source_has_a_limit(self):
        assert Stream(EstimatorPlan(), declared_ms=2000).file == {
            "*": {RECORDS: 200, "estimated": True}
        }
        assert Stream(EstimatorPlan(initial_rate=300)).file == {
            "*": {RECORDS: 300, "estimated": True}
        }
        assert Stream(EstimatorPlan("pid")).file == {}, "as Spark has it"

    def test_receivers_begin_with_one_too(self):
        stream = Stream(EstimatorPlan(initial_rate=300))
        assert stream.limiter.receivers([0, 3], "dstream") == {0: 300, 3: 300}
        assert {each.by for each in stream.limiter.limits()} == {"start"}

    def test_a_source_begins_with_what_was_set_for_it_where_that_is_less(self):
        stream = Stream(
            EstimatorPlan(), given={"clicks": {RECORDS: 20, SPAN: 3}, "orders": {SPAN: 3}}
        )
        assert stream.file == {
            "*": {RECORDS: 100, "estimated": True},
            "clicks": {RECORDS: 20, SPAN: 3},
            "orders": {RECORDS: 100, SPAN: 3, "estimated": True},
        }

    def test_the_limit_follows_what_batches_can_take(self):
        stream = Stream(EstimatorPlan())
        for _ in range(12):
            records = stream.file.get("clicks", stream.file["*"])[RECORDS]
            stream.batch(clicks(records, records), ms=records // 5)
        told = stream.limit()
        assert 4000 <= told.rate <= 4600, "0.2 ms a record, and nine tenths of a second"
        assert (told.by, told.estimator, told.taken) == ("estimator", "work", True)
        assert told.estimate == told.rate and told.estimated_at == stream.now
        assert told.reason and (told.query, told.processing_ms) == ("q", records // 5)
        assert stream.file["clicks"] == {RECORDS: int(told.rate), "estimated": True}

    def test_what_is_set_holds_below_the_estimate_and_the_estimate_above_it(self):
        stream = Stream(EstimatorPlan(), given={"clicks": {RATE: 2000}})
        for _ in range(12):
            records = stream.file.get("clicks", stream.file["*"])[RECORDS]
            stream.batch(clicks(records, records), ms=records // 5)
        told = stream.limit()
        assert (told.rate, told.by) == (2000, "set")
        assert told.estimate > 2000
        assert stream.file["clicks"] == {RECORDS: 2000}, "it stands for the source's own"
        stream.set(clicks={RATE: 10**6})
        assert stream.limit().by == "estimator"
        assert "estimated" not in stream.file["clicks"], "somebody has set more than that"

    def test_a_limit_that_could_be_higher_but_for_what_is_declared_says_so(self):
        stream = Stream(EstimatorPlan(max_rate=3000))
        for number in range(12):
            records = stream.file.get("clicks", stream.file["*"])[RECORDS]
            stream.batch(clicks(records, records), ms=records // 5)
            if number == 0:
                assert stream.limit().by == "estimator"
        assert (stream.limit().rate, stream.limit().by) == (3000, "max_rate")
        stream.set(clicks={RATE: 400})
        assert (stream.limit().rate, stream.limit().by) == (400, "set")

    def test_sources_share_what_their_query_can_take(self):
        stream = Stream(EstimatorPlan())
        for _ in range(15):
            of = {name: stream.file.get(name, stream.file["*"])[RECORDS] for name in ("a", "b")}
            calm = min(of["b"], 150)
            given = clicks(of["a"], of["a"], source="a"), clicks(calm, of["b"], source="b")
            stream.batch(*given, ms=(of["a"] + calm) // 5)
        a, b = stream.limit("a"), stream.limit("b")
        assert 4000 <= a.rate + b.rate <= 4700
        assert 150 < b.rate < 400
        assert "this source's share" in a.reason

    def test_sources_that_can_t_be_limited_leave_less_to_those_that_can(self):
        stream = Stream(EstimatorPlan())
        for _ in range(15):
            records = stream.file.get("clicks", stream.file["*"])[RECORDS]
            given = clicks(records, records), Input(None, 2000)
            stream.batch(*given, ms=(records + 2000) // 5)
        assert 2000 <= stream.limit().rate <= 2700
        assert "2,000 records of its last batch are of sources without" in stream.limit().reason

    @pytest.mark.parametrize("estimator", ["work", "pid"])
    def test_records_that_spark_counts_twice_are_once_what_the_source_kept_to(self, estimator):
        """Each action of a foreachBatch reads them, and each side of a self-join."""
        stream = Stream(EstimatorPlan(estimator, initial_rate=100))
        for _ in range(25):
            records = stream.file.get("clicks", stream.file["*"])[RECORDS]
            stream.batch(clicks(2 * records, records), ms=max(10, records // 5))
        assert 3000 <= stream.limit().rate <= 5100, "0.2 ms a record that the source gives"

    def test_the_highest_rate_of_a_source_is_not_that_of_those_beside_it(self):
        stream = Stream(EstimatorPlan(max_rate=1000))
        for _ in range(15):
            records = stream.file.get("clicks", stream.file["*"])[RECORDS]
            given = clicks(records, records), Input(None, 2000)
            stream.batch(*given, ms=(records + 2000) // 5)
        assert (stream.limit().rate, stream.limit().by) == (1000, "max_rate"), "4,500 fit in all"

    def test_what_is_known_of_a_query_is_kept_however_many_others_come_and_go(self):
        stream = Stream(EstimatorPlan())
        for number in range(2 * MOST_SOURCES):
            may = stream.file.get("clicks", stream.file["*"])[RECORDS]
            records = may if number < 20 else 10
            stream.batch(clicks(records, may), ms=records // 5)
            stream.batch(clicks(1, source=f"s{number}"), query=f"q{number}")
        assert stream.limit().rate > 4000

    def test_queries_are_estimated_one_by_one(self):
        stream = Stream(EstimatorPlan())
        for _ in range(12):
            for name, cost in (("a", 5), ("b", 50)):
                records = stream.file.get(name, stream.file["*"])[RECORDS]
                given = clicks(records, records, source=name)
                stream.batch(given, ms=records // cost, query=name)
                stream.now -= 1
            stream.now += 1
        assert stream.limit("a").query == "a"
        assert stream.limit("b").rate > 5 * stream.limit("a").rate

    def test_spark_s_estimator_looks_at_each_source_by_itself(self):
        stream = Stream(EstimatorPlan("pid"))
        given = clicks(5000, source="a"), clicks(1000, source="b")
        stream.batch(*given, ms=500)
        assert stream.limit("a").estimate is None, "its first batch gives none"
        stream.batch(*given, ms=500)
        assert (stream.limit("a").rate, stream.limit("b").rate) == (10_000, 2000)
        assert (stream.limit("a").by, stream.limit("a").estimator) == ("estimator", "pid")

    def test_only_sources_that_are_named_are_limited_where_some_are(self):
        stream = Stream(EstimatorPlan(sources=("clicks", "receiver-1")))
        assert stream.file == {"clicks": {RECORDS: 100, "estimated": True}}
        assert stream.limiter.receivers([0, 1], "dstream") == {0: None, 1: 100}
        stream.batch(clicks(100, 100), clicks(50, source="orders"))
        assert stream.limit("orders").rate is None
        assert stream.limit("orders").estimator is None
        assert stream.limit().estimator == "work"

    def test_a_batch_of_which_nothing_is_known_teaches_nothing(self):
        stream = Stream(EstimatorPlan())
        stream.batch()
        stream.batch(Input(None, 5000))
        assert stream.file == {"*": {RECORDS: 100, "estimated": True}}
        assert stream.limiter.limits() == ()

    def test_batches_of_dstreams_that_wait_lower_it_and_others_do_not_wait(self):
        rates = {}
        for queues in (True, False):
            stream = Stream(EstimatorPlan())
            for _ in range(8):
                records = stream.file.get("clicks", stream.file["*"])[RECORDS]
                stream.batch(clicks(records, records), ms=records // 5, queues=queues)
            before = stream.limit().rate
            stream.now += 1
            waited = Batch(
                "q",
                completed_at=stream.now,
                processing_ms=int(before) // 5,
                scheduling_ms=5000,
                records=int(before),
                batch_id=round(1000 * stream.now),
            )
            given = [clicks(int(before), int(before))]
            stream.limiter.completed(waited, 1000, given, queues)
            rates[queues] = stream.limit().rate / before
        assert rates[True] < 0.7 and rates[False] > 0.9

    def test_the_limit_never_leaves_its_bounds(self):
        stream = Stream(EstimatorPlan(min_rate=50, max_rate=400))
        for _ in range(6):
            records = stream.file.get("clicks", stream.file["*"])[RECORDS]
            stream.batch(clicks(records, records), ms=1)
        assert (stream.limit().rate, stream.limit().by) == (400, "max_rate")
        for _ in range(6):
            stream.batch(clicks(400, 400), ms=60_000)
        assert (stream.limit().rate, stream.limit().by) == (50, "estimator")


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
        assert stream.limiter.limit_of(batch, 10_000, [received(1000)], True) == 1000


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
