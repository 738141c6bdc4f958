"""What estimators are given, and which there are."""

import math
from dataclasses import replace

import pytest

from dagster_sparkscale.driver.backpressure.estimators import estimator_of
from dagster_sparkscale.driver.backpressure.measured import MeasuredBatch
from dagster_sparkscale.driver.backpressure.pid import Pid
from dagster_sparkscale.driver.backpressure.plan import ESTIMATORS, EstimatorPlan
from dagster_sparkscale.driver.backpressure.work import Work


def test_there_are_two():
    assert [type(estimator_of(EstimatorPlan(kind))) for kind in ESTIMATORS] == [Work, Pid]


def test_another_is_refused():
    with pytest.raises(ValueError, match="estimator = 'magic': must be one of work, pid"):
        estimator_of(EstimatorPlan("magic"))


def test_each_gets_what_is_declared_for_it():
    bounds = {"min_rate": 10.0, "max_rate": 5000.0, "initial_rate": 700.0}
    for kind in ESTIMATORS:
        assert estimator_of(EstimatorPlan(kind, **bounds)).rate == 700.0
    batches = [MeasuredBatch(float(n), 9000, 900, 1000, scheduling_ms=2000) for n in range(1, 4)]
    pid = estimator_of(
        EstimatorPlan("pid", min_rate=10.0, proportional=0.5, integral=0.1, derivative=0.25)
    )
    plain = estimator_of(EstimatorPlan("pid", min_rate=10.0))
    for estimator in (pid, plain):
        estimator.completed(batches[0])
        estimator.completed(replace(batches[1], records=4500))
    # Rates of 10000 and 5000 records/s, a second apart; it had waited for two intervals.
    assert pid.rate == 10_000 - 0.5 * 5000 - 0.1 * 2 * 5000 - 0.25 * 5000
    assert plain.rate == 10_000 - 5000 - 0.2 * 2 * 5000
    slow = estimator_of(EstimatorPlan("work", **bounds, target_ratio=0.5))
    fast = estimator_of(EstimatorPlan("work", **bounds))
    for estimator in (slow, fast):
        estimator.completed(MeasuredBatch(1.0, 700, 700, 1000))
    assert slow.rate < fast.rate


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"min_rate": 0.0}, "min_rate = 0.0: must be a number of records per second above 0"),
        ({"min_rate": math.nan}, "min_rate = nan: must be a number"),
        ({"max_rate": math.inf}, "max_rate = inf: must be a number"),
        ({"initial_rate": -1.0}, "initial_rate = -1.0: must be a number"),
        ({"max_rate": 99.0}, "max_rate = 99: must be at least min_rate = 100"),
        ({"initial_rate": 99.0}, "initial_rate = 99: must be at least min_rate = 100"),
        (
            {"initial_rate": 300.0, "max_rate": 200.0},
            "initial_rate = 300: must be at most max_rate = 200",
        ),
    ],
)
def test_bounds_that_make_no_sense_are_refused(kind, fields, said):
    with pytest.raises(ValueError, match=said):
        estimator_of(EstimatorPlan(kind, **fields))


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_bounds_may_be_one(kind):
    made = estimator_of(EstimatorPlan(kind, min_rate=100.0, max_rate=100.0, initial_rate=100.0))
    assert made.rate == 100.0


PLAIN = {"completed_at": 1.0, "records": 10, "processing_ms": 100, "interval_ms": 1000}


@pytest.mark.parametrize(
    ("field", "value", "least"),
    [
        *((name, -1, 0) for name in ("completed_at", "records", "processing_ms", "scheduling_ms")),
        *((name, -1, 0) for name in ("cores", "limit")),
        ("interval_ms", 0, 1),
        *((name, math.nan, 0) for name in ("limit", "completed_at")),
        ("limit", math.inf, 0),
    ],
)
def test_a_batch_that_can_not_be_is_refused(field, value, least):
    with pytest.raises(ValueError, match=f"^{field} = {value}: must be a number, {least} or above"):
        MeasuredBatch(**PLAIN | {field: value})


def test_what_is_not_known_of_a_batch_need_not_be_told():
    batch = MeasuredBatch(**PLAIN)
    assert batch.scheduling_ms is batch.cores is batch.limit is None
    assert not (batch.failed or batch.cold)
    MeasuredBatch(0.0, 0, 0, 1, scheduling_ms=0, cores=0, limit=0.0)
