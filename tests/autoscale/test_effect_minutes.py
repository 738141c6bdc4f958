"""Which scale-ups are measured, which are undone, and what is said where that is not certain."""

from dataclasses import replace

import pytest

from dagster_sparkscale.declare.decisions import ScaleTo
from dagster_sparkscale.observe.status import Query
from tests.autoscale.measuring import HOLD, UP, Minutes
from tests.fakes import QUERY


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
