"""What the estimator makes of what happens to streams."""

import math
import random

import pytest

from dagster_sparkscale.driver.backpressure.measured import MeasuredBatch
from dagster_sparkscale.driver.backpressure.work import Work
from tests.driver.backpressure.fed import Fed, queued


class TestTheStart:
    def test_there_is_a_limit_before_the_first_batch(self):
        assert Work().rate == 100.0
        assert Work(min_rate=7.0).rate == 7.0
        assert Work(initial_rate=2500.0).rate == 2500.0

    @pytest.mark.parametrize("overhead", [0.02, 0.1, 0.3, 0.5])
    @pytest.mark.parametrize("cost", [0.001, 0.0001, 0.00001])
    def test_it_grows_to_what_fits_within_a_few_batches(self, overhead, cost):
        fed = Fed(overhead, cost)
        times_more = fed.fitting / fed.work.rate
        rates = fed.batches(6 + 2 * math.ceil(math.log(times_more, 10)))
        assert rates[-1] >= 0.9 * fed.fitting
        assert overhead + cost * max(rates) <= 1.05

    def test_a_first_rate_that_is_too_high_is_corrected_by_the_first_batch(self):
        fed = Fed(initial_rate=20_000.0)
        assert fed.batch() < 1.1 * fed.fitting
        assert fed.batches(3)[-1] == pytest.approx(fed.fitting, rel=0.1)

    def test_the_first_batch_of_a_jvm_teaches_nothing(self):
        fed = Fed()
        assert fed.batch(times=60.0, cold=True) == 100.0
        warm = Fed()
        assert fed.batch() == warm.batch()

    def test_an_empty_batch_teaches_nothing(self):
        fed = Fed()
        assert fed.batches(5, arrivals=0) == [100.0] * 5
        assert fed.batch() == Fed().batch()

    def test_nor_does_one_that_took_no_time(self):
        work = Work()
        assert work.completed(MeasuredBatch(1.0, 100, 0, 1000)) is None
        assert work.rate == 100.0


class TestTheRateThatFits:
    def test_it_stays_where_it_is(self, steady):
        rates = steady.batches(100)
        assert max(rates) - min(rates) <= 0.011 * steady.fitting

    def test_chance_moves_it_little(self, steady):
        chance = random.Random(1)
        rates = [steady.batch(times=math.exp(chance.gauss(0, 0.1))) for _ in range(300)]
        assert min(rates) > 0.85 * steady.fitting
        assert max(rates) < 1.12 * steady.fitting

    def test_a_batch_takes_the_share_that_is_declared(self):
        fed = Fed(target_ratio=0.5)
        assert fed.batches(30)[-1] == pytest.approx((0.5 - 0.1) / 0.0002, rel=0.03)

    def test_the_most_that_is_declared_is_not_exceeded(self):
        assert max(Fed(max_rate=2000.0).batches(30)) == 2000.0

    def test_the_least_is_given_where_even_that_does_not_fit(self):
        fed = Fed(min_rate=6000.0)
        assert set(fed.batches(30, scheduling_ms=500)) == {6000.0}

    def test_the_least_is_given_where_a_batch_takes_too_long_without_any_record(self):
        fed = Fed(overhead=2.0, initial_rate=500.0)
        assert fed.batches(30, scheduling_ms=500)[-1] == 100.0

    def test_slow_changes_are_followed(self, steady):
        for _ in range(60):
            steady.cost *= 1.02
            steady.batch()
        assert steady.work.rate == pytest.approx(steady.fitting, rel=0.1)
        for _ in range(60):
            steady.cost /= 1.02
            steady.batch()
        assert steady.work.rate == pytest.approx(steady.fitting, rel=0.1)


class TestSmallBatches:
    def test_they_take_nothing_from_the_rate(self, steady):
        before, chance = steady.work.rate, random.Random(1)
        rates = [
            steady.batch(arrivals=chance.choice([1, 20, 300]), times=chance.uniform(0.8, 1.2))
            for _ in range(300)
        ]
        assert min(rates) > 0.95 * before

    def test_what_they_take_longer_is_overhead(self, steady):
        """Twice the time of a batch of 50 records is a tenth of a second, and no more."""
        steady.overhead = 0.2
        rates = steady.batches(30, arrivals=50)
        assert rates[-1] == pytest.approx(steady.fitting, rel=0.03)

    def test_the_rate_is_back_as_soon_as_they_are_fast_again(self, steady):
        before = steady.work.rate
        assert steady.batches(3, arrivals=50, times=20.0)[-1] < 0.6 * before
        assert steady.batches(4, arrivals=50)[-1] > 0.9 * before

    def test_they_do_not_raise_the_limit_beyond_what_they_show(self):
        fed = Fed()
        assert max(fed.batches(50, arrivals=50)) <= 10 * 50


class TestTheCostOfRecords:
    @pytest.mark.parametrize("factor", [2.0, 3.0])
    def test_as_it_rises_the_rate_falls_within_two_batches(self, steady, factor):
        steady.cost *= factor
        first, second = steady.batches(2)
        assert steady.fitting < first < 0.85 * factor * steady.fitting
        assert second == pytest.approx(steady.fitting, rel=0.1)

    @pytest.mark.parametrize("factor", [2.0, 3.0])
    def test_as_it_falls_the_rate_rises_within_two_batches(self, steady, factor):
        steady.cost /= factor
        rates = steady.batches(2)
        assert rates[-1] > 0.85 * steady.fitting
        assert max(rates) < 1.05 * steady.fitting

    def test_one_slow_batch_is_forgotten_with_the_next(self, steady):
        before = steady.work.rate
        after = steady.batch(times=3.0)
        assert 0.4 * before < after < before
        assert steady.batch() > 0.93 * before

    def test_two_slow_ones_with_others_between_are_no_change(self, steady):
        before = steady.work.rate
        steady.batch(times=3.0)
        steady.batch()
        steady.batch(times=3.0)
        assert steady.batch() > 0.9 * before

    def test_two_fast_ones_with_a_slow_one_between_are(self, steady):
        steady.cost /= 3
        steady.batch()
        steady.batch(times=2.5)
        assert steady.batch() > 0.75 * steady.fitting

    def test_one_slow_and_one_fast_batch_are_no_change(self, steady):
        before = steady.work.rate
        steady.batch(times=3.0)
        steady.batch(times=0.3)
        assert steady.batches(2)[-1] == pytest.approx(before, rel=0.1)

    def test_records_that_are_dear_every_other_time_fit_in_the_mean(self, steady):
        """Where none waits, a batch that takes too long is not made up for by one that does not."""
        cheap, dear = steady.cost, 2 * steady.cost
        took = []
        for number in range(200):
            steady.cost = dear if number % 2 else cheap
            took.append(steady.overhead + steady.cost * steady.work.rate)
            steady.batch()
        assert 0.6 < sum(took[100:]) / 100 < 1.0


class TestFailedBatches:
    def test_they_teach_nothing(self, steady):
        before = steady.work.rate
        assert steady.work.completed(MeasuredBatch(99.0, 1, 99_000, 1000, failed=True)) is None
        assert steady.work.rate == before

    def test_it_is_as_if_they_had_not_been(self):
        failing, other = Fed(), Fed()
        for number in range(20):
            if number % 3 == 0:
                failing.work.completed(
                    MeasuredBatch(1.0, 5, 60_000, 1000, 9000, cores=9, failed=True)
                )
            assert failing.batch(cores=2) == other.batch(cores=2)


class TestReasons:
    def test_say_what_it_goes_by(self):
        work = Work()
        found = work.completed(MeasuredBatch(1.0, 100, 200, 1000))
        assert found is not None
        assert found.rate == work.rate
        assert found.reason == (
            "a batch takes 0.10 s, and 1 s for each 1,000 records; 90% of 1 s: 633 records/s"
        )

    def test_say_where_batches_wait(self, queueing):
        found = queueing.completed(next(queued([2.0])))
        assert found is not None
        assert found.reason.startswith("a batch takes 0.")
        assert "records/s; fewer, as batches wait for 1.7 s" in found.reason

    def test_say_that_a_larger_batch_is_tried(self):
        fed = Fed(1.2, cost=0.001)
        fed.batches(9)
        found = fed.work.completed(MeasuredBatch(fed.at + 2.0, 100, 1300, 1000, limit=100.0))
        assert found is not None
        assert found.rate == 200.0
        assert "100 records/s; 200 are tried once" in found.reason


def test_bounds_of_the_target():
    for wrong in (0.0, -1.0, 1.01, math.nan):
        with pytest.raises(
            ValueError, match=f"target_ratio = {wrong}: must be above 0 and at most 1"
        ):
            Work(target_ratio=wrong)
    Work(target_ratio=1.0)
