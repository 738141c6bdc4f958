import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_sparkscale.sources.kinesis.options import DEFAULT_SPAN_MS, Limits
from dagster_sparkscale.sources.kinesis.span import SHARE, Density, Governor, span_ms

UNKNOWN = Density()


@pytest.mark.parametrize(
    ("limits", "shards", "density", "cycle_ms", "expected"),
    [
        # Nothing is known: as dense as a shard can be.
        (Limits(records=10_000), 1, UNKNOWN, None, 10_000),
        (Limits(records=10_000), 4, UNKNOWN, None, 2500),
        (Limits(records=10_000), 4, Density(100.0, 200.0), None, 25_000),
        (Limits(records=10_000), 4, Density(9999.0, 200.0), None, 2500),
        (Limits(bytes=1024 * 1024), 1, UNKNOWN, None, 1000),
        (Limits(bytes=1_000_000), 2, Density(100.0, 500.0), None, 10_000),
        (Limits(bytes=1_000_000), 2, Density(None, 500.0), None, 1_000_000 / 2 / 1048.576),
        (Limits(span_ms=7000), 5, UNKNOWN, None, 7000),
        (Limits(span_ms=7000, records=1000), 1, UNKNOWN, None, 1000),
        (Limits(duration_ms=5000), 1, UNKNOWN, 9e9, None),
        (Limits(), 1, UNKNOWN, None, DEFAULT_SPAN_MS),
        (Limits(), 1, UNKNOWN, 1000.0, DEFAULT_SPAN_MS),
        (Limits(), 1, UNKNOWN, 1_000_000.0, 2_000_000),
    ],
)
def test_limits_become_a_span(limits, shards, density, cycle_ms, expected):
    found = span_ms(limits, shards, density, cycle_ms)
    assert found == (expected if expected is None else pytest.approx(expected))


@given(st.integers(1, 10**9), st.integers(1, 1000), st.floats(0.01, 5000))
def test_a_span_by_records_never_holds_more_than_its_share(records, shards, rate):
    found = span_ms(Limits(records=records), shards, Density(rate), None)
    assert found / 1000 * min(rate, 1000) == pytest.approx(records / shards)


def simulate(
    fixed_ms, work, duration_ms, interval_ms=0.0, behind_ms=0.0, batches=80, noise=0.0, seed=0
):
    """Batches of a stream; of each what it covered, how long it took, and what is left.

    Args:
        work: milliseconds a batch takes for one of the stream, by the batch's number.
        behind_ms: how much of the stream waits in the beginning.
    """
    chance = random.Random(seed)
    governor = Governor.start(duration_ms)
    waiting = behind_ms + duration_ms
    found = []
    for batch in range(batches):
        covered = min(governor.span_ms, waiting)
        cost = (fixed_ms + work(batch) * covered) * chance.uniform(1 - noise, 1 + noise)
        cycle = max(interval_ms, cost)
        waiting += cycle - covered
        found.append((covered, cycle, waiting))
        governor = governor.after(cycle, covered)
    return found


@settings(max_examples=60)
@given(
    st.floats(0, 3000),
    st.floats(0.02, 4),
    st.sampled_from([0.0, 1000.0, 5000.0, 10_000.0]),
    st.floats(0, 0.2),
    st.integers(0, 99),
)
def test_batches_take_about_as_long_as_they_should_while_there_is_enough_to_do(
    fixed, work, interval, noise, seed
):
    run = simulate(fixed, lambda _: work, 10_000.0, interval, 1e9, noise=noise, seed=seed)
    settled = sorted(cycle for _, cycle, _ in run[30:])
    assert 0.8 * 10_000 <= settled[len(settled) // 2] <= 1.6 * 10_000
    assert settled[len(settled) * 9 // 10] <= 2.5 * 10_000
    assert settled[-1] <= 4 * 10_000


@settings(max_examples=60)
@given(st.floats(0, 1000), st.floats(0, 0.4), st.floats(1000, 10_000), st.floats(0, 1e5))
def test_a_trigger_slower_than_the_duration_does_not_starve_the_stream(fixed, work, target, behind):
    run = simulate(fixed, lambda _: work, target, 10_000.0, behind, batches=150)
    assert run[-1][2] <= 15_000, "it keeps up, and has caught up"


@settings(max_examples=60)
@given(st.floats(2000, 20_000), st.floats(0, 0.3))
def test_a_fixed_cost_above_the_duration_does_not_starve_the_stream(fixed, work):
    run = simulate(fixed, lambda _: work, 2000.0, behind_ms=100_000, batches=200)
    assert run[-1][2] <= 4 * fixed + 10_000


def test_the_span_grows_again_when_work_becomes_cheap():
    run = simulate(500, lambda batch: 3.0 if batch < 40 else 0.1, 10_000.0, behind_ms=1e9)
    dear, cheap = run[39][0], run[60][0]
    assert dear < 5000
    assert cheap > 60_000


def test_the_span_shrinks_when_work_becomes_dear():
    run = simulate(500, lambda batch: 0.5 if batch < 40 else 5.0, 10_000.0, behind_ms=1e9)
    assert run[39][0] > 15_000
    assert run[50][0] < 3000


@given(
    st.floats(1, 1e6),
    st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1e12)), max_size=50),
)
def test_the_span_stays_in_its_bounds(duration, batches):
    governor = Governor.start(duration)
    for cycle, covered in batches:
        following = governor.after(cycle, covered)
        assert duration / SHARE <= following.span_ms <= 2 * governor.span_ms
        if covered == 0:
            assert following == governor, "a batch with nothing in it tells nothing"
        governor = following


def test_a_silent_stretch_is_no_work():
    # It was passed over in a batch that took too long.
    assert Governor.start(1000.0).after(10_000.0, 8 * 3_600_000.0).span_ms < 1000.0


def test_a_batch_that_was_quick_is_followed_by_one_of_twice_the_span_and_no_more():
    assert Governor.start(10_000.0).after(2000.0, 10_000.0).span_ms == 20_000.0


def test_a_batch_that_found_little_to_do_says_nothing_against_a_long_span():
    assert Governor.start(10_000.0).after(10_000.0, 1000.0).span_ms == 10_000.0


def test_batches_that_covered_about_the_same_do_not_tell_what_the_records_took():
    governor = Governor.start(10_000.0).after(5000.0, 10_000.0)
    assert governor.after(9000.0, 9900.0).fixed_ms == 0.0


def test_a_batch_that_was_slow_by_chance_does_not_take_less_than_nothing_whatever_is_in_it():
    governor = Governor.start(10_000.0).after(1000.0, 10_000.0)
    assert governor.after(9000.0, 12_000.0).fixed_ms == 0.0
