"""What is kept of when records have come."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.driver.kafka.lag import Arrivals
from tests.driver.kafka_progress import Looked, kafka


def seen(*moments: tuple[int, int], most: int = 400) -> Arrivals:
    arrivals = Arrivals()
    for at, newest in moments:
        arrivals.see(at, newest, most)
    return arrivals


def test_moments_are_kept_within_bounds_and_reach_back_all_the_same() -> None:
    steady = seen(*((second * 1000, second * 10) for second in range(10_000)), most=16)
    assert len(steady) <= 16
    # As it was steady, a line through few of them says the same.
    for second in (0, 1, 5000, 9998):
        assert steady.left_at(second * 10) == pytest.approx(second * 1000)


def test_of_a_partition_where_nothing_comes_two_moments_are_kept() -> None:
    arrivals = seen(*((second * 1000, 7) for second in range(1000)), (1_000_000, 8))
    assert len(arrivals) == 3
    assert arrivals.left_at(7) == 999_000


def test_a_pause_begins_and_ends_when_it_was_seen_to() -> None:
    arrivals = seen((0, 1), (1000, 7), (2000, 7), (3000, 7), (4000, 8))
    assert len(arrivals) == 4
    assert arrivals.left_at(7) == 3000


def test_no_more_is_left_out_than_has_to_be() -> None:
    moments = [(second * 1000, second) for second in range(5)]
    assert len(seen(*moments[:4], most=4)) == len(seen(*moments, most=4)) == 4


def test_of_a_topic_with_many_partitions_few_moments_of_each_are_kept() -> None:
    looked = Looked()
    for second in range(30):
        latest = {str(number): second for number in range(4000)}
        looked.at(second, kafka(dict.fromkeys(latest, 0), latest))
    [source] = looked.lag._sources.values()
    assert {len(arrivals) for arrivals in source._arrivals.values()} <= set(range(5, 9))


def test_a_rate_is_that_of_all_that_was_seen_and_of_long_enough() -> None:
    at = 1_800_000_000_000
    assert seen((at, 10), (at + 9999, 20)).left_at(5) is None
    assert seen((at, 10), (at + 10_000, 20)).left_at(5) == at - 5000
    assert seen((0, 10), (5000, 10), (20_000, 30)).left_at(5) == -5000


def test_what_no_position_needs_any_more_is_forgotten() -> None:
    arrivals = seen((0, 10), (1000, 20), (2000, 30), (3000, 40))
    arrivals.forget_before(9)
    assert len(arrivals) == 4
    arrivals.forget_before(25)
    assert len(arrivals) == 3
    assert arrivals.left_at(25) == 1500
    arrivals.forget_before(40)
    assert len(arrivals) == 1


def test_the_same_progress_told_twice_counts_once() -> None:
    arrivals = seen((0, 10), (1000, 20), (1000, 20))
    assert len(arrivals) == 2 and arrivals.left_at(15) == 500
    assert seen((0, 10), (1000, 20), (2000, 30), (2000, 40)).left_at(35) == 1750


def test_a_partition_of_which_nothing_was_seen_tells_nothing() -> None:
    assert Arrivals().left_at(5) is None


steps = st.lists(st.tuples(st.integers(1, 60_000), st.integers(0, 10_000)), min_size=2, max_size=60)


@given(steps, st.integers(4, 20), st.floats(0, 1))
def test_the_moment_is_between_those_at_which_the_offset_was_seen_before_and_after(
    increments: Sequence[tuple[int, int]], most: int, where: float
) -> None:
    moments, at, newest = [], 0, 0
    for time, records in increments:
        at, newest = at + time, newest + records
        moments.append((at, newest))
    arrivals = seen(*moments, most=most)
    first, last = moments[0][1], moments[-1][1]
    position = first + int((last - first) * where)
    if position < last:
        left = arrivals.left_at(position)
        assert left is not None and moments[0][0] <= left <= moments[-1][0]
        # Later positions are left later, and forgetting changes nothing.
        if position + 1 < last:
            assert left <= (arrivals.left_at(position + 1) or 0)
        arrivals.forget_before(position)
        assert arrivals.left_at(position) == pytest.approx(left)


@given(steps)
def test_a_query_that_has_read_all_is_not_behind(increments: Sequence[tuple[int, int]]) -> None:
    looked, at, newest = Looked(), 0, 0
    for time, records in increments:
        at, newest = at + time, newest + records
        assert looked.behind(at / 1000, kafka({"0": newest}, {"0": newest})) == 0
