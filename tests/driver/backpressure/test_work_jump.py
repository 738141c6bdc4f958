"""What the estimator makes of records that become many times as dear from one batch to the next."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.driver.backpressure.fed import Fed
from tests.driver.backpressure.jumps import Jump

FACTORS = (5, 8, 12, 20, 50)
OVERHEADS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8)


@pytest.mark.parametrize("overhead", OVERHEADS)
@pytest.mark.parametrize("factor", FACTORS)
class TestUpAndDownAgain:
    def test_the_limit_fits_from_the_fourth_batch_on(self, factor, overhead):
        jump = Jump(factor, overhead)
        assert jump.up < 1.5
        assert jump.down < 1.5
        assert jump.longest <= 3

    def test_what_batches_take_by_chance_does_not_hide_it(self, factor, overhead):
        # Where a fifth of a batch is its records, a tenth of the whole is half of that.
        noise = 0.1 if overhead < 0.8 else 0.05
        runs = [Jump(factor, overhead, noise=noise, seed=seed) for seed in range(5)]
        assert sum(run.up for run in runs) / len(runs) < 2
        assert sum(run.down for run in runs) / len(runs) < 2
        assert max(run.longest for run in runs) <= 3


@settings(deadline=None)
@given(st.floats(5, 50), st.floats(0.05, 0.8), st.sampled_from([0.5, 1.0, 10.0, 300.0]))
def test_any_jump_at_any_overhead(factor, overhead, interval):
    jump = Jump(factor, overhead, interval)
    assert jump.up < 5 and jump.down < 5, "a single batch may be an overshoot"
    assert jump.longest <= 3


def test_jumps_in_the_middle_of_a_batch() -> None:
    """The first slow batch shows only a part of the jump, so that it takes a batch or two more;
    where that part is a quarter or so, sometimes many. The limit comes back all the same."""
    chance = random.Random(1)
    slow_to_fit = 0
    for _ in range(400):
        overhead, factor, share = chance.uniform(0.05, 0.8), chance.uniform(5, 50), chance.random()
        fed = Fed(overhead, cost=1e-6)
        fed.batches(40)
        cheap = fed.cost
        fed.cost = cheap * (1 + share * (factor - 1))
        fed.batch()
        fed.cost = cheap * factor
        fits = (1 - overhead) / fed.cost
        slow_to_fit += sum(rate > 2 * fits for rate in fed.batches(60)) > 6
        assert max(fed.batches(20)) < 2 * fits, (overhead, factor, share)
    assert slow_to_fit <= 4


@pytest.mark.parametrize("overhead", [0.5, 0.8])
def test_slow_batches_of_one_size_are_followed_by_a_smaller_one(overhead):
    """As where the source has no more: nothing else shows whether it is their overhead."""
    fed = Fed(overhead, cost=1e-5)
    full = fed.batches(60)[-1]
    fed.cost *= 8
    fed.batch(limit=full, arrivals=full)
    size = int(min(full, fed.work.rate))
    fed.batch(arrivals=size, limit=float(size))
    rates = fed.batches(10)
    assert max(rates[2:]) < 2 * max(100.0, (1 - overhead) / fed.cost)


def test_dearer_overhead_is_not_taken_for_dearer_records():
    fed = Fed(0.3, cost=1e-5)
    fed.batches(30)
    fed.overhead = 1.3
    fed.batches(60)
    assert fed.overhead + fed.cost * fed.work.rate < 1.5
    fed.overhead = 0.3
    assert fed.batches(10)[-1] > 0.9 * fed.fitting


def test_a_straggler_of_many_times_costs_a_few_batches_of_smaller_limits():
    fed = Fed(0.5, cost=1e-5)
    before = min(fed.batches(60)[-10:])
    fed.batch(times=20.0)
    rates = fed.batches(8)
    assert rates[0] < before, "until a comparable batch has shown that it was chance"
    assert rates[-1] > 0.9 * before
