"""What operations come to, by their runs and by their events."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.declare.decisions import Hold, MoveReceivers, ScaleTo, target_of
from dagster_sparkscale.names import BY_TAG
from dagster_sparkscale.serve.page.operated import (
    Operated,
    Operations,
    of_run,
    of_story,
    quantile,
    took,
)

STORY = {
    "reason": "R of query counts is 1.20",
    "ending": "reached",
    "executors_before": 2,
    "executors_target": 4,
    "executors_after": 4,
    "seconds": 6.5,
}


def run(status: str = "SUCCESS", **tags: str) -> Operated:
    return of_run("r1", tags, status, "rescale", 100.0, 102.0, 110.0)


def test_a_run_and_its_event_are_one_operation() -> None:
    known = Operations({"r1": run()}, {"r1": of_story("r1", "rescale", 109.0, STORY)})
    (found,) = known.newest_first(0)
    assert (found.at, found.by, found.ending, found.seconds) == (102.0, "a person", "reached", 6.5)
    assert (found.before, found.asked, found.reached) == (2, 4, 4)
    assert found.reason == "R of query counts is 1.20" and found.by_a_person


def test_a_run_that_was_refused_has_failed_and_says_no_numbers() -> None:
    (found,) = Operations({"r1": run("FAILURE")}).newest_first(0)
    assert (found.ending, found.asked, found.reached) == ("failed", None, None)


def test_a_run_that_goes_on_is_in_progress() -> None:
    found = of_run("r", {}, "STARTED", "stop", 100.0, 101.0, None)
    assert (found.ending, found.ended, found.seconds) == ("in progress", None, None)


def test_an_operation_that_failed_in_the_end_has_failed() -> None:
    event = of_story("r1", "set_limits", 109.0, {"reason": "x"})
    assert event.ending == "done" and event.seconds is None
    (found,) = Operations({"r1": run("FAILURE")}, {"r1": event}).newest_first(0)
    assert (found.ending, found.seconds) == ("failed", 8.0)


@pytest.mark.parametrize(
    ("tags", "by", "person"),
    [
        ({}, "a person", True),
        ({"user": "ann"}, "a person, ann", True),
        ({BY_TAG: "bob"}, "a person, bob", True),
        ({"dagster/sensor_name": "autoscaler"}, "autoscaler", False),
        ({"dagster/sensor_name": "mine"}, "sensor mine", False),
        ({"dagster/schedule_name": "retune"}, "schedule retune", False),
    ],
)
def test_who_has_asked_for_it(tags: dict[str, str], by: str, person: bool) -> None:
    found = run(**tags)
    assert (found.by, found.by_a_person) == (by, person)


def test_of_an_event_whose_run_is_gone_nobody_is_known() -> None:
    (found,) = Operations({}, {"r1": of_story("r1", "rescale", 109.0, STORY)}).newest_first(0)
    assert (found.by, found.by_a_person, found.at) == ("", False, 102.5)


def test_the_newest_come_first_and_the_old_are_forgotten() -> None:
    runs = {str(n): of_run(str(n), {}, "SUCCESS", "stop", n, n, n) for n in range(5)}
    known = Operations(runs)
    assert [each.at for each in known.newest_first(2)] == [4, 3, 2]
    known.forget(4)
    assert [*known.runs] == ["4"]


SECONDS = st.lists(st.none() | st.floats(0, 1000))


@given(SECONDS, st.integers(0, 3))
def test_how_long_rescales_take_is_of_those_that_reached_their_target(
    seconds: list[float | None], short: int
) -> None:
    all_of_them = [
        Operated(str(n), "rescale", n, n + 1, "reached", seconds=each)
        for n, each in enumerate(seconds)
    ]
    all_of_them += [Operated("s", "rescale", 1, 2, "short", seconds=120.0)] * short
    all_of_them += [Operated("o", "stop", 1, 2, "done", seconds=1.0), Operated("p", "rescale", 1)]
    found = took(all_of_them)
    known = sorted(each for each in seconds if each is not None)
    assert (found.rescales, found.reached) == (len(seconds) + short, len(known))
    if not known:
        assert (found.p50, found.p95) == (None, None)
        return
    for share, value in ((0.5, found.p50), (0.95, found.p95)):
        assert value in known
        assert sum(1 for each in known if each <= value) >= share * len(known)
        assert sum(1 for each in known if each < value) < share * len(known)


def test_nothing_has_no_quantile() -> None:
    assert quantile([], 0.5) is None


@given(st.integers(0, 10**6))
def test_a_stored_decision_says_its_target(target: int) -> None:
    assert target_of(str(ScaleTo(target, "why"))) == target


@pytest.mark.parametrize("text", [None, str(Hold("")), str(MoveReceivers((), "")), "scale to x"])
def test_other_decisions_have_none(text: str | None) -> None:
    assert target_of(text) is None
