"""What ran, once more: how far a backtest can be believed."""

import random

import pytest

from dagster_sparkscale.backtest.calibrate import Uncalibrated
from dagster_sparkscale.backtest.loads import Load
from dagster_sparkscale.backtest.replay import Replay, replay
from dagster_sparkscale.backtest.simulate import simulate
from tests.backtest.simulated import BOUNDS, By, application, daily


def by_ratio(seen):
    """Go up by a quarter from R 0.8 on, and down by one below 0.5."""
    executors, ratio = seen.requested, seen.ratio or 1.0
    if ratio >= 0.8:
        return executors + 1 + executors // 4
    return executors - (ratio < 0.5)


def replayed(load: Load, policy=None, seed: int = 3, **fields) -> Replay | Uncalibrated:
    """A history under that load, and its replay by another noise."""
    app = application(**{"noise": 0.08} | fields)
    run = simulate(app, load, By(by_ratio), BOUNDS, seed=seed, began_at=1e9)
    by = policy or By(by_ratio)
    return replay(run.minutes, app.workload, bounds=BOUNDS, policy=by, seed=seed + 1)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"queues": False},
        {"shards": 64, "partitions": None, "start_delay": 75.0},
        {"waves": False, "serial": 0.03},
        {"max_records": 70_000, "tells_lag": True},
    ],
    ids=["queues", "structured", "slow to start", "serial", "limited"],
)
def test_what_a_known_application_did_is_reproduced(fields):
    found = replayed(daily(3000, 0.6, seconds=24_000), **fields)
    assert isinstance(found, Replay)
    assert found.refused is None
    for errors in (found.fixed, found.held_out):
        assert errors.ratio < 0.08
        assert errors.delay is not None and errors.delay < 1.5
        assert abs(errors.late) <= 3
    assert found.policy is not None and abs(found.policy.executors) < 0.1
    assert found.held_out.minutes < found.fixed.minutes / 3 + 1


def test_a_cost_that_hangs_on_what_no_minute_has_is_refused():
    draws = random.Random(1)
    costs = tuple((300.0 * step, draws.choice([0.75, 1.0, 1.5])) for step in range(120))
    found = replayed(daily(3000, 0.6, seconds=24_000), costs=costs)
    assert isinstance(found, Replay)
    assert found.refused is not None and found.refused.startswith("simulated on the recorded exec")
    assert found.fixed.ratio > 0.15


def test_a_cost_that_changes_at_the_end_is_found_by_the_part_that_was_held_out():
    # By all minutes together it would pass for noise.
    found = replayed(daily(3000, 0.6, seconds=24_000), costs=((19_000.0, 1.6),))
    assert isinstance(found, Replay)
    assert found.held_out.ratio > 0.15
    assert found.refused is not None


def test_another_policy_than_ran_is_refused():
    found = replayed(daily(3000, 0.6, seconds=24_000), policy=By(lambda seen: 20))
    assert isinstance(found, Replay)
    assert found.refused is not None
    assert found.refused.startswith("simulated on the policy that ran, ")
    assert found.fixed.ratio < 0.08


def test_a_history_at_its_limit_is_refused():
    found = replayed(daily(3000, 0.6, seconds=24_000), max_records=12_000)
    assert isinstance(found, Uncalibrated) or found.refused is not None


def test_too_short_a_history_is_refused():
    app = application()
    run = simulate(app, daily(3000, 0.6, seconds=1200), By(by_ratio), BOUNDS)
    found = replay(run.minutes, app.workload, bounds=BOUNDS)
    assert isinstance(found, Uncalibrated)
    assert "at least 30 are needed" in found.reason
