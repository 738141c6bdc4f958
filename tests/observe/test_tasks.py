"""Which cause the times of tasks show, and where they show none."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.observe.status import Executor, ExecutorTimes, StageTimes, TaskTimes
from dagster_sparkscale.observe.tasks import Cause, cause_of, slots_of
from tests.fakes import status

EVEN = StageTimes(8, 1000, 4000, 100, 500, 550, 3, "0", 4, 2000)
LONG = replace(EVEN, wall_ms=3000, run_ms=6500, longest_ms=3000, executor_ms=4500)
FOUR = tuple(Executor(str(n), f"host-{n}", 2) for n in range(4))


def ran(
    id: str, host: str = "", tasks: int = 20, run_ms: int = 10_000, gc: int = 0
) -> ExecutorTimes:
    return ExecutorTimes(id, host or f"host-{id}", tasks, run_ms, gc)


def cause(*stages: StageTimes, executors: tuple[ExecutorTimes, ...] = (), **times: int) -> Cause:
    tasks = TaskTimes(60.0, executors=executors, stages=stages, **times)  # type: ignore[arg-type]
    return cause_of(status(tasks=tasks, executors=FOUR))


def test_a_driver_that_is_busy_by_itself_is_the_cause() -> None:
    found = cause(*[LONG] * 4, batch_ms=50_000, job_ms=5_000)
    assert found.kind == "driver" and found.text.startswith("for 90% of the time of batches")
    assert cause(*[EVEN] * 4, batch_ms=50_000, job_ms=25_000).kind is None


def test_one_partition_on_any_executor_is_skew() -> None:
    found = cause(*(replace(LONG, executor=str(n)) for n in range(4)))
    assert found.kind == "skew"
    assert found.text == (
        "the data is skewed: the longest of 8 tasks of a stage took 3.0 s, 6.0 times the median, "
        "and it is always that of partition 3"
    )


def test_one_partition_on_an_executor_whose_other_tasks_are_fast_is_skew() -> None:
    assert cause(*[LONG] * 4).kind == "skew"  # as of state, which stays where it is


def test_one_executor_whose_other_tasks_are_slow_too_is_the_cause() -> None:
    found = cause(*[replace(LONG, executor_ms=9000, run_ms=11_000)] * 4, executors=(ran("0"),))
    assert found.kind == "executor"
    assert found.text.startswith("executor 0 on host host-0 is slow: the longest of 8 tasks")


def test_any_partition_on_one_executor_is_a_slow_executor() -> None:
    single = replace(LONG, executor_tasks=1, executor_ms=3000)
    assert cause(*(replace(single, partition=n) for n in range(4))).kind == "executor"


def test_one_partition_on_one_executor_with_no_other_task_is_not_known() -> None:
    found = cause(*[replace(LONG, executor_tasks=1, executor_ms=3000)] * 4)
    both = "it is always that of partition 3, on executor 0"
    assert found.kind is None and both in found.text and "can't be told apart" in found.text


def test_a_host_is_named_whose_executors_are_all_slow() -> None:
    slow = [replace(LONG, executor_ms=9000, run_ms=11_000)] * 4
    executors = (
        *(ran("0", "old", run_ms=90_000), ran("1", "old", run_ms=80_000)),
        *(ran("2", "new"), ran("3", "newer")),
    )
    assert cause(*slow, executors=executors).text.startswith("host old, with 2 executors, is slow")


def test_a_slow_executor_that_has_two_tasks_of_a_stage_is_named() -> None:
    """As a real driver reported of one on which tasks take ten times as long."""
    of = dict(tasks=16, wall_ms=1231, run_ms=2194, gc_ms=0, median_ms=61, longest_ms=602)
    on = dict(executor="1", executor_tasks=2, executor_ms=1230)
    stages = [StageTimes(**of, **on, partition=n) for n in (11, 0, 11, 11)]
    assert cause(*stages).kind == "executor"


def test_a_long_task_behind_many_waves_of_others_is_none() -> None:
    assert cause(*[replace(LONG, wall_ms=10_001)] * 4).kind is None


def test_fewer_tasks_than_slots_are_too_few_partitions() -> None:
    found = cause(*[replace(EVEN, tasks=2)] * 3)
    assert found.kind == "partitions" and "has 2 tasks for 8 slots" in found.text
    assert cause(*[EVEN] * 3).kind is None  # as many as there are slots


def test_a_tenth_of_garbage_collection_is_the_cause() -> None:
    found = cause(executors=(ran("0", gc=3000), ran("1", gc=1000)))
    assert found.kind == "gc" and found.text.startswith("20% of the time of tasks")
    assert cause(executors=(ran("0", gc=999),)).kind is None


def test_the_hours_of_a_receiver_that_was_moved_are_not_garbage_collection_of_batches() -> None:
    """Its task has ended by that, and counts in the totals of the executor that it has left."""
    six_hours = 6 * 3_600_000
    moved = (ran("0"), ran("1", run_ms=six_hours, gc=six_hours // 5))
    hosts = (replace(FOUR[0], receivers=1), *FOUR[1:])

    def found(stage: StageTimes) -> Cause:
        tasks = TaskTimes(60.0, executors=moved, stages=(stage,) * 4)
        return cause_of(status(tasks=tasks, executors=hosts))

    assert found(replace(EVEN, gc_ms=399)).kind is None
    assert found(replace(EVEN, gc_ms=400)).kind == "gc"
    assert found(replace(EVEN, gc_ms=None)).kind is None


def test_what_is_not_reported_is_not_known() -> None:
    assert cause_of(status()) == Cause(None, "its driver does not report what tasks take")
    assert cause(EVEN).text == "fewer than 3 of its stages have ended in the last 60 s"
    assert "equally long" in cause(*[EVEN] * 3).text


def test_slots_are_those_that_receivers_leave() -> None:
    assert slots_of(status(executors=FOUR), 1) == 8 and slots_of(status(executors=FOUR), 2) == 4
    held = (replace(FOUR[0], receivers=1), FOUR[1])
    assert slots_of(status(executors=held), 1) == 3
    assert slots_of(status(executors=(replace(FOUR[0], cores=0),)), 1) is None
    taken = (replace(FOUR[0], receivers=3), FOUR[1])
    assert slots_of(status(executors=taken), 1) == 2


def uneven(number: int = 4, **fields: Any) -> list[StageTimes]:
    """Stages with a long task, on one executor after the other."""
    return [replace(LONG, **{"executor": str(n), **fields}) for n in range(number)]


@pytest.mark.parametrize(
    ("stages", "kind"),
    [
        (uneven(3), "skew"),
        (uneven(2), None),
        ([*uneven(3), *[EVEN] * 3], "skew"),
        ([*uneven(3), *[EVEN] * 4], None),
        (
            uneven(longest_ms=1500, wall_ms=5000, executor_ms=3000),
            "skew",
        ),  # 3 times the median, three tenths of the stage
        (uneven(longest_ms=1499, wall_ms=2000, executor_ms=3000), None),
        (uneven(longest_ms=1500, wall_ms=5001, executor_ms=3000), None),
        (uneven(tasks=2, median_ms=1, longest_ms=3000), "skew"),
        (uneven(median_ms=0), None),
        (uneven(median_ms=None), None),
        (uneven(longest_ms=None), None),
        ([*uneven(4), replace(LONG, partition=1)], "skew"),  # four of five
        ([*uneven(3), replace(LONG, partition=1)], None),
        (uneven(partition=None), None),
    ],
)
def test_how_uneven_stages_have_to_be(stages: list[StageTimes], kind: str | None) -> None:
    assert cause(*stages).kind == kind


def of_one(**fields: Any) -> list[StageTimes]:
    """Stages whose long task is on one executor, which has one other task in each."""
    of = {"tasks": 2, "executor_tasks": 2, "run_ms": 3000, "executor_ms": 3000}
    return [replace(LONG, **{**of, **fields})] * 3


@pytest.mark.parametrize(
    ("stages", "kind"),
    [
        # Three others here, three there: each of 1000 there, and here of twice that.
        (of_one(tasks=3, executor_ms=5000, run_ms=6000), "executor"),
        (of_one(tasks=3, executor_ms=4999, run_ms=5999), "skew"),
        (of_one(tasks=3, executor_ms=2000, run_ms=3000), "skew"),
        (of_one(tasks=3, executor_ms=5000, run_ms=4999), "executor"),
        # None there, or hardly any here.
        (of_one(), None),
        (of_one(tasks=5, executor_tasks=1, run_ms=7000), None),
        # What is not known of one stage does not keep the others from counting.
        (
            [*of_one(executor_tasks=None)[:1], *of_one(tasks=4, executor_ms=9000, run_ms=9200)],
            "executor",
        ),
        (of_one(executor_ms=None), None),
    ],
)
def test_a_slow_executor_is_known_by_its_other_tasks(
    stages: list[StageTimes], kind: str | None
) -> None:
    assert cause(*stages).kind == kind


def test_the_most_uneven_stage_is_the_example() -> None:
    found = cause(*uneven(3), replace(LONG, tasks=9, median_ms=300, longest_ms=2400))
    assert "the longest of 9 tasks of a stage took 2.4 s, 8.0 times the median" in found.text


def test_an_executor_with_long_tasks_of_any_partition_and_fast_others_is_no_cause() -> None:
    found = cause(*(replace(LONG, partition=n) for n in range(4)))
    assert found.kind is None and "told apart" not in found.text


def test_what_is_steady_of_neither_is_no_cause() -> None:
    single = [replace(each, executor_tasks=1, executor_ms=3000) for each in uneven()]
    assert cause(*(replace(each, partition=n) for n, each in enumerate(single))).kind is None


@pytest.mark.parametrize(
    ("others", "where"),
    [
        ((ran("1", "old", run_ms=20_000), ran("2")), "host old, with 2 executors,"),
        ((ran("1", "old", run_ms=19_999), ran("2")), "executor 0 on host old"),
        ((ran("1", "old", run_ms=20_000),), "executor 0 on host old"),
        ((ran("2"), ran("3")), "executor 0 on host old"),
    ],
)
def test_a_host_is_slow_where_two_of_its_executors_are(
    others: tuple[ExecutorTimes, ...], where: str
) -> None:
    slow = [replace(LONG, executor_ms=9000, run_ms=11_000)] * 4
    found = cause(*slow, executors=(ran("0", "old", run_ms=90_000), *others))
    assert found.text.startswith(f"{where} is slow")


def test_few_partitions_are_those_of_most_stages() -> None:
    few = replace(EVEN, tasks=1)
    assert "has 1 task for 8 slots" in cause(few, few, EVEN).text
    assert cause(few, few, EVEN, EVEN).kind is None and cause(few, few).kind is None
    tasks = TaskTimes(60.0, stages=(few,) * 3)
    assert cause_of(status(tasks=tasks, executors=())).kind is None


def test_a_tenth_of_garbage_collection_is_enough() -> None:
    assert cause(executors=(ran("0", gc=1000),)).kind == "gc"


numbers = st.integers(0, 10**6)
stages = st.builds(
    StageTimes,
    *(st.integers(1, 100), numbers, numbers),
    *(st.none() | numbers for _ in range(4)),
    *(st.none() | st.sampled_from("0123"), st.none() | st.integers(1, 100), st.none() | numbers),
)
times = st.builds(
    TaskTimes,
    *(st.floats(0, 200), st.none() | numbers, st.none() | numbers),
    st.lists(st.builds(ran, st.sampled_from("0123"), st.just("h"), numbers, numbers, numbers)).map(
        tuple
    ),
    st.lists(stages, max_size=12).map(tuple),
)


@given(times)
def test_any_numbers_have_an_answer(tasks: TaskTimes) -> None:
    found = cause_of(status(tasks=tasks, executors=FOUR))
    assert found.text and found.kind in (None, "driver", "skew", "executor", "partitions", "gc")


@given(times)
def test_what_is_missing_never_makes_a_cause(tasks: TaskTimes) -> None:
    bare = TaskTimes(tasks.seconds)
    assert cause_of(status(tasks=bare, executors=FOUR)).kind is None
