"""Where no batch fits its interval, and how the lowest rate is left again."""

import random

import pytest

from tests.driver.backpressure.fed import Fed


class TestNothingFits:
    """Batches take longer than their interval whatever is in them."""

    def test_what_comes_in_is_read_all_the_same(self):
        fed = Fed(overhead=0.5, cost=0.00001)
        fed.batches(30, arrivals=20_000)
        fed.overhead = 1.2
        fed.batches(20)
        took = fed.overhead + fed.cost * fed.work.rate
        assert fed.work.rate / took > 8_000, "and not min_rate, for which batches are as long"
        assert took < 1.6

    def test_batches_that_wait_for_each_other_have_to_fit(self):
        fed = Fed(overhead=0.5, cost=0.00001)
        fed.batches(30, arrivals=20_000, scheduling_ms=0)
        fed.overhead = 1.2
        assert fed.batches(20, scheduling_ms=0)[-1] == 100.0


class TestTheLowestRate:
    """Batches of one size do not tell whether it is their records that take so long."""

    @pytest.mark.parametrize("noise", [0.0, 0.1])
    @pytest.mark.parametrize("overhead", [0.92, 0.95, 1.2, 3.0])
    def test_it_is_left_where_the_overhead_takes_the_time_from_the_start(self, overhead, noise):
        chance = random.Random(1)
        fed = Fed(overhead, cost=0.00001)
        for _ in range(150):
            fed.batch(arrivals=20_000, times=chance.uniform(1 - noise, 1 + noise))
        assert fed.work.rate > 2_000
        assert fed.overhead + fed.cost * fed.work.rate < 1.5 * overhead

    def test_where_the_records_do_it_is_seldom_left_and_at_once_come_back_to(self):
        fed = Fed(min_rate=6000.0)
        rates = fed.batches(700)
        tried = [number for number, rate in enumerate(rates, 1) if rate > 6000.0]
        assert tried == [10, 20, 40, 80, 160, 320, 480, 640]
        assert {rates[number - 1] for number in tried} == {12_000.0}

    def test_nothing_is_tried_above_what_is_declared(self):
        fed = Fed(min_rate=6000.0, max_rate=8000.0)
        assert set(fed.batches(100)) == {6000.0}

    def test_what_is_not_read_at_the_lowest_rate_is_not_tried_at_another(self):
        fed = Fed(1.2, cost=0.001)
        assert set(fed.batches(100, arrivals=50)) == {100.0}

    def test_a_source_that_takes_no_more_ends_the_try(self):
        fed = Fed(1.2, cost=0.001)
        assert fed.batches(10)[-1] == 200.0
        assert fed.batches(5, arrivals=100) == [100.0] * 5

    def test_as_does_one_that_heeds_no_other_limit(self):
        fed = Fed(1.2, cost=0.001)
        fed.batches(10)
        assert [fed.batch(arrivals=100, limit=100.0) for _ in range(4)] == [
            200.0,
            200.0,
            *[100.0] * 2,
        ]

    def test_a_batch_that_was_planned_before_does_not(self):
        fed = Fed(1.2, cost=0.00001)
        fed.batches(10)
        assert fed.batch(arrivals=100, limit=100.0) == 200.0
        assert fed.batch() > 200.0

    @pytest.mark.parametrize("overhead", [0.7, 0.85])
    def test_a_larger_batch_that_is_slow_by_chance_takes_nothing_from_the_rate(self, overhead):
        fed = Fed(overhead, cost=0.00002)
        before = min(fed.batches(40)[-5:])
        tried = next(number for number in range(200) if fed.batch() > 1.5 * before)
        assert tried > 5
        fed.batch(times=3.0)
        assert min(fed.batches(10)) > 0.9 * before

    def test_while_batches_wait_none_is_tried(self):
        fed = Fed(1.2, cost=0.00001)
        assert set(fed.batches(100, scheduling_ms=200)) == {100.0}
