"""How much receivers took of late."""

from dataclasses import replace

import pytest

from dagster_sparkscale.driver.batches.reports import DoneBatch, Input
from dagster_sparkscale.driver.receivers.rates import ReceiverRates
from dagster_sparkscale.driver.wire import Batch


def batch(at_ms: int, **taken: int) -> DoneBatch:
    inputs = [Input(f"receiver-{id[1:]}", number, receiver=True) for id, number in taken.items()]
    return DoneBatch(Batch("dstream", at_ms / 1000, 100, batch_id=at_ms), 2000, tuple(inputs))


def test_the_rate_is_that_of_the_latest_batches() -> None:
    rates = ReceiverRates()
    assert rates.rate(0) is None
    rates.completed(batch(10_000, r0=100, r3=0))
    assert (rates.rate(0), rates.rate(3), rates.rate(1)) == (50.0, 0.0, None)
    rates.completed(batch(12_000, r0=300, r3=10))
    assert (rates.rate(0), rates.rate(3)) == (100.0, 2.5)
    rates.completed(batch(39_999, r0=0, r3=0))
    assert rates.rate(0) == pytest.approx(400 / 6)
    rates.completed(batch(42_000, r0=8, r3=0))  # the first two are 30 s old, and more
    assert (rates.rate(0), rates.rate(3)) == (2.0, 0.0)


def test_one_batch_counts_however_long_ago_the_one_before_was() -> None:
    rates = ReceiverRates()
    rates.completed(batch(10_000, r0=100))
    rates.completed(batch(910_000, r0=20))
    assert rates.rate(0) == 10.0


def test_other_sources_and_batches_without_a_time_count_for_nothing() -> None:
    rates = ReceiverRates()
    others = (Input("receiver-0", 5), Input(None, 7), Input("clicks", 7))
    rates.completed(replace(batch(10_000), inputs=others))
    nameless = Batch("dstream", 1.0, 100)
    rates.completed(DoneBatch(nameless, 2000, (Input("receiver-0", 5, receiver=True),)))
    assert rates.rate(0) is None
