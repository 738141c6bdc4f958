"""Which scale-ups are measured, which are undone, and what is said where that is not certain."""

from dataclasses import replace

import pytest

from dagster_sparkscale.declare.decisions import ScaleTo
from dagster_sparkscale.observe.status import Executor, Query, StageTimes, TaskTimes
from tests.autoscale.measuring import HOLD, STREAM, UP, Minutes
from tests.fakes import QUERY, scaled, structured


def test_more_executors_that_bring_nothing_are_taken_back_until_they_are_gone() -> None:
    minutes = Minutes().scaled_up()
    for _ in range(2):  # the run that was asked for may not have come to be
        undone = minutes.pass_(6)
        assert isinstance(undone, ScaleTo)
        assert (undone.target, undone.not_again_for) == (4, 3600)
    assert "the cause is not known: its driver does not report what tasks take" in undone.reason
    assert minutes.pass_(4) == HOLD and not minutes.learned


def test_a_tenth_of_what_they_should_is_enough() -> None:
    # 1.05 times as fast is a tenth of 1.5 times as fast, which is 50 % more.
    minutes = Minutes().scaled_up()
    assert minutes.pass_(6, seconds=16 / 1.0501) == HOLD and not minutes.learned
    assert isinstance(Minutes().scaled_up().pass_(6, seconds=16 / 1.0499), ScaleTo)


def test_a_further_scale_up_is_measured_with_the_first_one() -> None:
    minutes = Minutes().scaled_up()
    further = ScaleTo(8, "6 registered -> 8")
    assert minutes.pass_(6, policy=further, removing=1) == further
    assert "a whole window" in minutes.pass_(8).reason
    assert minutes.pass_(8).reason.startswith("8 executors brought 0% of what they should over 4")


def test_batches_of_another_size_leave_it_open_until_they_have_the_old_one() -> None:
    minutes = Minutes().scaled_up()
    held = minutes.pass_(6, seconds=11, records=650)
    assert held == replace(
        HOLD,
        reason=f"{HOLD.reason}; 6 executors brought 0% to 91% of what they should over 4: 62.5 -> "
        "59.1 records per second of processing, R 1.60 -> 1.10: batches have another size, so it "
        "stays",
    )
    assert isinstance(minutes.pass_(6), ScaleTo)


def test_executors_have_to_be_there_for_a_window() -> None:
    minutes = Minutes().scaled_up()
    assert "a whole window" in minutes.pass_(6, minutes=0.8).reason
    assert isinstance(minutes.pass_(6, minutes=0.2), ScaleTo)


def test_three_batches_are_enough() -> None:
    minutes = Minutes().scaled_up()
    minutes.now += 60
    three = minutes.batches(6, 16, 1000)[1:]
    minutes.now -= 60
    assert minutes.pass_(6, batches=three).reason.startswith("6 executors brought 0% of")


def test_it_goes_back_as_far_as_the_bounds_let_it() -> None:
    least = scaled(max_executors=8, min_executors=5, min_gain=0.1)
    undone = Minutes(stream=least).scaled_up().pass_(6)
    assert isinstance(undone, ScaleTo) and undone.target == 5
    all_ = scaled(max_executors=8, min_executors=6, min_gain=0.1)
    assert Minutes(stream=all_).scaled_up().pass_(6) == HOLD


def test_the_cause_is_said_where_the_tasks_show_it() -> None:
    few = TaskTimes(60.0, stages=(StageTimes(7, 1000, 4000),) * 3)
    cores = tuple(Executor(str(n), "host", 2) for n in range(6))
    undone = Minutes().scaled_up().pass_(6, tasks=few, executors=cores)
    assert "; the longest stage of a batch has 7 tasks for 12 slots" in undone.reason
    two = STREAM.model_copy(update={"executor_cores": 2, "spark_conf": {"spark.task.cpus": "2"}})
    undone = Minutes(stream=two).scaled_up().pass_(6, tasks=few, executors=cores)
    assert "; the cause is not known: its tasks take equally long" in undone.reason


def test_a_stream_without_a_policy_has_nothing_to_measure() -> None:
    minutes = Minutes(stream=structured())
    assert minutes.pass_(4, policy=UP) == UP and not minutes.learned


def test_a_scale_down_goes_on() -> None:
    down = ScaleTo(5, "R is low")
    assert Minutes().scaled_up().pass_(6, policy=down) == down


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"removing": 1}, "executors come or go"),
        ({"requested": 7}, "executors come or go"),
        ({"batches": ()}, "fewer than 3 batches with records completed in 60 s"),
        (
            {"queries": (Query(QUERY, True), Query("other", True))},
            "2 queries are active, which share the executors",
        ),
    ],
)
def test_what_is_not_certain_undoes_nothing_and_is_said(fields: dict, why: str) -> None:
    held = Minutes().scaled_up().pass_(6, **fields)
    assert held.reason.endswith(f"it is not known yet what more executors brought: {why}")
    assert held.pinned  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("executors", "why"),
    [
        (5, "batches ran on another number of executors"),
        (None, "the driver does not report on how many executors its batches ran"),
    ],
)
def test_batches_must_have_run_on_the_executors_that_are_there(executors, why: str) -> None:
    minutes = Minutes().scaled_up()
    minutes.now += 60
    batches = [replace(each, executors=executors) for each in minutes.batches(6, 16, 1000)]
    minutes.now -= 60
    assert why in minutes.pass_(6, batches=tuple(batches)).reason


@pytest.mark.parametrize("fields", [{"cold": True}, {"failed": True}, {"records": 0}])
def test_batches_that_say_nothing_of_a_pace_do_not_count(fields: dict) -> None:
    minutes = Minutes().scaled_up()
    minutes.now += 60
    batches = [replace(each, **fields) for each in minutes.batches(6, 1, 1000)[:2]]
    batches += minutes.batches(6, 16, 1000)[2:]
    minutes.now -= 60
    assert "fewer than 3 batches" in minutes.pass_(6, batches=tuple(batches)).reason


def test_a_scale_up_from_what_is_not_certain_is_not_measured() -> None:
    minutes = Minutes()
    assert minutes.pass_(4, policy=UP, removing=1) == UP and not minutes.learned
    assert minutes.pass_(4, policy=UP, batches=()) == UP and not minutes.learned


def test_one_that_never_came_is_forgotten() -> None:
    minutes = Minutes()
    minutes.pass_(4, policy=UP)
    assert minutes.pass_(4, minutes=4) == HOLD and minutes.learned
    assert minutes.pass_(4, minutes=2) == HOLD and not minutes.learned


def test_it_has_five_minutes_to_come_and_half_an_hour_to_be_measured() -> None:
    minutes = Minutes()
    minutes.pass_(4, policy=UP)
    assert minutes.pass_(4, minutes=0) == HOLD and minutes.learned
    assert minutes.pass_(4, minutes=5) == HOLD and minutes.learned
    minutes.pass_(6, batches=(), minutes=25)
    assert minutes.learned
    minutes.pass_(6, batches=(), minutes=0.1)
    assert not minutes.learned


@pytest.mark.parametrize("executors", [4, 6])
def test_a_clock_that_was_set_back_makes_it_forgotten(executors: int) -> None:
    minutes = Minutes()
    minutes.pass_(4, policy=UP)
    minutes.pass_(executors, minutes=-1)
    assert not minutes.learned


def test_a_decision_for_what_is_there_already_begins_nothing() -> None:
    minutes = Minutes()
    minutes.pass_(4, policy=ScaleTo(4, "as it is"))
    assert not minutes.learned


def test_one_that_was_taken_back_is_forgotten() -> None:
    minutes = Minutes().scaled_up()
    assert minutes.pass_(4) == HOLD and not minutes.learned


def test_one_of_long_ago_or_of_another_driver_is_forgotten() -> None:
    minutes = Minutes().scaled_up()
    assert minutes.pass_(6, batches=(), minutes=27).reason != HOLD.reason and minutes.learned
    minutes.pass_(6, batches=(), minutes=3)
    assert not minutes.learned
    minutes = Minutes().scaled_up()
    minutes.epoch = 2
    minutes.pass_(6)
    assert not minutes.learned


def test_nothing_is_forgotten_while_the_driver_does_not_answer_for_its_executors() -> None:
    minutes = Minutes().scaled_up()
    before = minutes.learned
    assert minutes.pass_(6, spark_age=99.0) == HOLD
    assert minutes.learned == before
