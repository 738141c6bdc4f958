"""A policy on a simulated stream."""

import pytest

from dagster_sparkscale.backtest.loads import Load, constant
from dagster_sparkscale.backtest.simulate import simulate
from tests.backtest.simulated import BOUNDS, Always, At, application


def test_it_is_the_same_by_the_same_seed():
    def run(seed):
        noisy = application(noise=0.1, executor_failures=2.0, batch_failures=0.05)
        return simulate(noisy, constant(1500, 3600), At({9: 7}), BOUNDS, seed=seed)

    assert run(1) == run(1)
    assert run(1).batches != run(2).batches


def test_a_target_outside_the_bounds_is_refused():
    with pytest.raises(ValueError, match="target = 41: must be within the bounds, from 1 to 40"):
        simulate(application(), constant(1000, 600), At({3: 41}), BOUNDS)


def test_a_load_that_is_shorter_than_the_interval_is_refused():
    with pytest.raises(ValueError, match=r"interval = 60.0: must be above 0, and within the 30 s"):
        simulate(application(), Load("l", 30.0, (1.0,)), Always(), BOUNDS)
