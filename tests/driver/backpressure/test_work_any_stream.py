"""What holds of the estimator whatever the stream is like, and which rates it finds for one."""

import math
import random
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.driver.backpressure.measured import MeasuredBatch
from dagster_sparkscale.driver.backpressure.work import Work

batches = st.builds(
    MeasuredBatch,
    completed_at=st.floats(0, 1e10),
    records=st.integers(0, 3) | st.integers(0, 10**6) | st.integers(0, 2**62),
    processing_ms=st.integers(0, 5000) | st.integers(0, 2**53),
    interval_ms=st.sampled_from([1, 1000, 60_000]),
    scheduling_ms=st.none() | st.integers(0, 10_000) | st.integers(0, 2**53),
    cores=st.none() | st.integers(0, 1000),
    limit=st.none() | st.floats(0, 1e12),
    failed=st.booleans(),
    cold=st.booleans(),
)


@given(st.lists(batches, max_size=30), st.floats(1e-3, 1e4), st.none() | st.floats(1.0, 1e6))
def test_whatever_happens_the_rate_is_one(history, least, times):
    work = Work(min_rate=least, max_rate=None if times is None else least * times)
    for batch in history:
        found = work.completed(batch)
        assert least <= work.rate < math.inf
        assert times is None or work.rate <= least * times
        if found is not None:
            assert found.rate == work.rate


@given(
    st.floats(0.5, 120.0),
    st.floats(0.01, 0.5),
    st.floats(150.0, 1e7),
    st.floats(0.5, 1.0),
)
def test_it_finds_what_fits_whatever_the_stream_is_like(interval, overhead, fitting, target):
    """Of any interval, overhead and cost, without chance. While it grows a batch may take up to a
    third too long: where what was taken for overhead after the first one is cost."""
    overhead = overhead * target * interval
    cost = (target * interval - overhead) / (fitting * interval)
    work = Work(target_ratio=target)
    largest = 0.0
    for number in range(25):
        records = int(work.rate * interval)
        took = overhead + cost * records
        largest = max(largest, took)
        at = (number + 1) * interval + took
        work.completed(MeasuredBatch(at, records, round(1000 * took), round(1000 * interval)))
    assert work.rate == pytest.approx(fitting, rel=0.05)
    assert largest <= 4 / 3 * interval


def run(takes: Callable[[int], float], number: int) -> list[float]:
    work = Work()
    rates = []
    for count in range(number):
        records = int(work.rate)
        took = takes(records)
        work.completed(MeasuredBatch(count + took, records, round(1000 * took), 1000))
        rates.append(work.rate)
    return rates


@pytest.mark.parametrize(
    "takes",
    [
        lambda n: 0.05 + 1e-4 * n * math.log2(2 + n) / 10,  # sorts
        lambda n: 0.3 * math.ceil(n / 4000) + 2e-5 * n,  # waves of tasks
        lambda n: 0.05 + 0.004 * n**0.6,  # each record is cheaper among many
    ],
)
def test_streams_that_are_not_quite_so_find_a_rate_that_fits_too(takes):
    rates = run(takes, 60)
    took = [takes(int(rate)) for rate in rates[30:]]
    assert 0.8 < sum(took) / len(took) < 0.95
    assert max(took) < 1.1


def history(interval: float = 1.0) -> Iterator[MeasuredBatch]:
    """Batches of a DStream whose records become dearer, then cheaper, with slow ones among them.

    Args:
        interval: in seconds; batches, waits and overhead are in proportion to it.
    """
    chance, waited = random.Random(3), 0.0
    for number in range(120):
        records = [200, 1500, 3000, 3600][min(number // 3, 3)] - number % 7 * 100
        cost = 0.0002 * (1 + (40 <= number < 70)) * chance.uniform(0.9, 1.1)
        took = 0.1 + cost * records * (2.5 if number in (20, 85) else 1)
        yield MeasuredBatch(
            1000.0 + (number + waited + took) * interval,
            round(records * interval),
            round(1000 * took * interval),
            round(1000 * interval),
            scheduling_ms=round(1000 * waited * interval),
            limit=4000.0 * interval,
            cores=2 + (number >= 100),
        )
        waited = max(0.0, waited + took - 1)


def rates(batches: Iterator[MeasuredBatch]) -> list[float]:
    work = Work()
    found = []
    for batch in batches:
        work.completed(batch)
        found.append(work.rate)
    return found


@pytest.mark.parametrize("interval", [0.5, 4.0, 60.0])
def test_streams_of_other_intervals_get_the_same_rates(interval):
    """But for what the clock is taken to be off by, which is of each measured time."""
    assert rates(history(interval)) == pytest.approx(rates(history()), rel=0.1)


def test_the_same_batches_bring_the_same_rates():
    """What decides is many numbers. Who changes one has to look at the benchmark `backpressure`."""
    found = rates(history())
    assert [round(found[number], 1) for number in (0, 2, 5, 9, 20, 21, 41, 42, 43, 60)] == [
        *(1865.1, 1865.1, 4023.2, 4050.0, 1730.8, 3957.5, 1544.8, 1402.7, 1467.5, 100.0)
    ]
    assert [round(found[number], 1) for number in (70, 71, 72, 85, 86, 99, 100, 110, 119)] == [
        *(2168.2, 855.8, 1173.3, 100.0, 1251.3, 1740.0, 2125.3, 2248.5, 2657.7)
    ]
