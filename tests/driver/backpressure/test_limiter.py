"""Which limits are in force, and what batches have to do with that."""

import pytest

from dagster_sparkscale.driver.backpressure.limiter import MOST_SOURCES
from dagster_sparkscale.driver.backpressure.plan import EstimatorPlan
from dagster_sparkscale.driver.batches.reports import DoneBatch, Input
from dagster_sparkscale.driver.wire import Batch, Limit
from tests.driver.backpressure.limited import RATE, RECORDS, SPAN, Stream, clicks


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
            given = (clicks(int(before), int(before)),)
            stream.limiter.completed(DoneBatch(waited, 1000, given, queues))
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
