import pytest

from dagster_sparkscale.driver.backpressure.measured import MeasuredBatch
from dagster_sparkscale.driver.backpressure.work import Work
from tests.driver.backpressure.fed import Fed


@pytest.fixture
def steady() -> Fed:
    """A stream that has gone on for a while, at the rate that fits."""
    fed = Fed()
    fed.batches(30)
    assert fed.work.rate == pytest.approx(fed.fitting, rel=0.03)
    return fed


@pytest.fixture
def queueing() -> Work:
    """The estimator of a DStream that has gone on for a while: 4000 records of 0.9 s to a batch."""
    work = Work()
    for number in range(60):
        records = int(work.rate)
        took = 0.1 + 0.0002 * records
        work.completed(
            MeasuredBatch(number + 1 + took, records, int(1000 * took), 1000, 0, limit=records)
        )
    assert work.rate == pytest.approx(4000, rel=0.03)
    return work
