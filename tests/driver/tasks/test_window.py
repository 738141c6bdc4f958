"""Sums of what several looks have found of tasks."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.driver.tasks.window import (
    MOST_EXECUTORS,
    MOST_STAGES,
    Interval,
    Stretch,
    add,
    common,
    kept,
    length,
    sums,
    union,
)
from dagster_sparkscale.driver.wire import ExecutorTimes, StageTimes

intervals = st.lists(
    st.tuples(st.integers(0, 90), st.integers(-1, 9)).map(lambda pair: (pair[0], sum(pair))),
    max_size=12,
)


def stretch(began: float, ended: float, wall_ms: int = 0, **fields: object) -> Stretch:
    stage = StageTimes(4, wall_ms, wall_ms) if wall_ms else None
    return Stretch(began, ended, stage=stage, **fields)  # type: ignore[arg-type]


def ran(id: str, tasks: int, run_ms: int, gc_ms: int = 0) -> ExecutorTimes:
    return ExecutorTimes(id, "host", tasks, run_ms, gc_ms)


def moments(of: list[Interval]) -> set[int]:
    return {moment for began, ended in of for moment in range(began, ended)}


@given(intervals)
def test_a_union_is_the_same_time_once(some: list[Interval]) -> None:
    together = union(some)
    assert moments(together) == moments(some)
    assert length(together) == len(moments(some))
    # In order, and with time in between.
    assert all(began < ended for began, ended in together)
    assert all(one[1] < other[0] for one, other in pairwise(together))


@given(intervals, intervals)
def test_what_is_common_is_the_time_in_both(one: list[Interval], other: list[Interval]) -> None:
    both = common(union(one), union(other))
    assert moments(both) == moments(one) & moments(other)
    assert all(began < ended for began, ended in both)


@given(st.lists(st.floats(0.1, 40), min_size=1, max_size=80))
def test_stretches_are_bounded_and_cover_the_last_minute(steps: list[float]) -> None:
    found: tuple[Stretch, ...] = ()
    now = 1000.0
    for step in steps:
        found = add(found, stretch(now, now + step, wall_ms=int(step * 1000)), 60.0)
        now += step
    assert len(found) <= MOST_STAGES + 2 and found[-1].ended == now
    assert all(one.ended == other.began for one, other in pairwise(found))
    assert now - found[0].began >= min(60.0, now - 1000.0) - 1e-6


def test_short_stretches_are_put_together_with_the_longest_of_their_stages() -> None:
    one = stretch(0, 1, 500, jobs=((0, 500),), executors=(ran("0", 1, 500),))
    other = stretch(1, 2, 900, jobs=((1000, 1900),), executors=(ran("0", 2, 900), ran("1", 1, 5)))
    [both] = add((one,), other, 60.0)
    assert (both.began, both.ended) == (0, 2) and both.jobs == ((0, 500), (1000, 1900))
    assert set(both.executors) == {ran("0", 3, 1400), ran("1", 1, 5)}
    assert both.stage is not None and both.stage.wall_ms == 900


def test_stretches_of_their_share_of_the_minute_stay_apart() -> None:
    found: tuple[Stretch, ...] = ()
    for number in range(40):
        found = add(found, stretch(1000 + 5.0 * number, 1005 + 5.0 * number), 60.0)
    assert [each.began for each in found] == [1140 + 5.0 * number for number in range(12)]


def test_a_batch_may_begin_and_end_with_the_stretches() -> None:
    for batch, known in (((10, 20), 10), ((9, 20), None), ((10, 21), None)):
        began, ended = batch
        found = sums([stretch(0.01, 0.02)], [(began, ended)])
        assert found is not None and found.batch_ms == known


def test_what_is_not_known_of_one_part_is_not_known_of_both() -> None:
    for one, other in ((None, ()), ((), None)):
        [both] = add((stretch(0, 1, jobs=one),), stretch(1, 2, jobs=other), 60.0)
        assert both.jobs is None and both.stage is None


def test_stretches_are_summed_up() -> None:
    found = sums(
        [
            stretch(10, 20.0004, 500, executors=(ran("0", 2, 900, 50), ran("1", 1, 450, 9))),
            stretch(20.0004, 31),
            stretch(31, 42.5, 700, executors=(ran("0", 3, 100, 7),)),
        ],
        [],
    )
    assert found is not None and found.seconds == 32.5
    assert found.executors == (ran("1", 1, 450, 9), ran("0", 5, 1000, 57))
    assert [each.wall_ms for each in found.stages] == [500, 700]


def test_of_many_stages_the_latest_are_reported() -> None:
    found = sums([stretch(n, n + 1, 100 + n) for n in range(20)], [])
    assert found is not None
    assert [each.wall_ms for each in found.stages] == [*range(108, 120)]


def test_jobs_count_within_batches_that_lie_in_the_stretches_alone() -> None:
    found = sums(
        [stretch(10, 20, jobs=((10_000, 14_000), (15_000, 16_000)))],
        [(8_000, 12_000), (13_000, 17_000), (18_000, 25_000)],
    )
    assert found is not None and (found.batch_ms, found.job_ms) == (4_000, 2_000)


def test_nothing_is_known_of_the_driver_without_a_batch_or_with_too_many_jobs() -> None:
    for jobs, batches in (((), []), (None, [(11_000, 12_000)])):
        found = sums([stretch(10, 20, jobs=jobs)], batches)
        assert found is not None and found.batch_ms is None and found.job_ms is None
    assert sums([], [(1, 2)]) is None


def test_of_many_executors_the_slowest_is_among_those_reported() -> None:
    many = tuple(ran(str(n), 1, 100 + n) for n in range(120))
    found = sums([stretch(0, 60, executors=many)], [])
    assert found is not None and len(found.executors) <= MOST_EXECUTORS
    assert found.executors[0].id == "119"


def test_an_executor_without_a_task_is_left_out() -> None:
    found = sums([stretch(0, 60, executors=(ran("0", 0, 0), ran("1", 1, 7)))], [])
    assert found is not None and [each.id for each in found.executors] == ["1"]


def test_long_batches_are_summed_up_for_longer() -> None:
    assert kept(1000) == 60 and kept(60_000) == 180
