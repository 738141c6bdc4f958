"""Looks at parts of Spark, each on its thread: what one that hangs costs."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from dagster_sparkscale.driver.spark import looks
from dagster_sparkscale.driver.spark.looks import Look
from tests.waiting import HANGS, wait_for


class Part:
    """A part of Spark that answers, hangs or fails, as a test has it."""

    def __init__(self) -> None:
        self.asked = 0
        self.answers = threading.Event()
        self.answers.set()
        self.fails: Exception | None = None

    def look(self) -> int:
        self.asked += 1
        number = self.asked
        assert self.answers.wait(HANGS)
        if self.fails is not None:
            raise self.fails
        return number


@pytest.fixture
def part() -> Iterator[Part]:
    made = Part()
    yield made
    made.answers.set()


def looking(part: Part, pause: Callable[[], float] = lambda: HANGS) -> Look[int]:
    look = Look("a part", part.look, pause)
    look.begin()
    return look


def test_it_looks_when_it_is_asked(part: Part) -> None:
    look = looking(part)
    assert (look.seen, look.age) == (None, None)
    assert look.now(HANGS) == 1
    assert look.now(HANGS) == 2
    assert look.seen is not None and look.seen.value == 2
    assert part.asked == 2


def test_it_looks_by_itself(part: Part) -> None:
    looking(part, lambda: 0.01)
    wait_for("the third look", lambda: part.asked >= 3)


def test_what_was_seen_stays_and_grows_old_while_a_look_hangs(part: Part) -> None:
    look = looking(part)
    assert look.now(HANGS) == 1
    part.answers.clear()
    asked = look.ask()
    assert not look.wait(asked, time.monotonic() + 0.01)
    first = look.age
    assert look.seen is not None and look.seen.value == 1
    wait_for("its age grows", lambda: (look.age or 0) > (first or 0))
    part.answers.set()
    assert look.wait(asked, time.monotonic() + HANGS)
    assert look.seen.value == 2


def test_a_look_that_hangs_is_not_waited_for_by_those_who_come_later(
    part: Part, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looks, "HANGS_AFTER", 0.01)
    part.answers.clear()
    look = looking(part)
    look.ask()
    wait_for("it hangs", lambda: look.hangs)
    assert look.now(HANGS) is None  # else the test would not end
    part.answers.set()
    wait_for("it does not any more", lambda: look.seen and not look.hangs)


def test_a_look_that_hangs_does_not_hold_up_another(part: Part) -> None:
    part.answers.clear()
    hanging, other = looking(part), looking(Part())
    asked = hanging.ask()
    assert other.now(HANGS) == 1
    assert not hanging.wait(asked, time.monotonic())


def test_what_was_asked_for_before_it_began_is_not_what_comes_of_one_that_hung(
    part: Part,
) -> None:
    """A look that was under way does not show what has happened since."""
    part.answers.clear()
    look = looking(part)
    look.ask()
    wait_for("the first is under way", lambda: part.asked == 1)
    asked = look.ask()
    part.answers.set()
    assert look.wait(asked, time.monotonic() + HANGS)
    assert look.seen is not None and look.seen.value == 2


def test_what_a_look_raises_is_said_once_and_it_looks_on(
    part: Part, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What another thread prints while pytest empties its own file would be lost.
    said: list[str] = []
    monkeypatch.setattr("dagster_sparkscale.driver.spark.looks.say", said.append)
    look = looking(part)
    assert look.now(HANGS) == 1
    part.fails = ValueError("An error occurred while calling o1.f\n: java.lang.X: no\n\tat Y")
    assert look.now(HANGS) is None
    assert look.now(HANGS) is None
    assert look.trouble == "ValueError: java.lang.X: no"
    assert look.seen is not None and look.seen.value == 1
    part.fails = None
    assert look.now(HANGS) == 4
    assert look.trouble is None
    wait_for("it is said", lambda: "a part: it works again" in said)
    assert said.count("trouble with a part: ValueError: java.lang.X: no; trying on") == 1


def test_many_may_ask_at_once(part: Part) -> None:
    look = looking(part)
    seen: list[int | None] = []
    with contextlib.ExitStack() as threads:
        for _ in range(20):
            thread = threading.Thread(target=lambda: seen.append(look.now(HANGS)))
            thread.start()
            threads.callback(thread.join)
    assert len(seen) == 20 and None not in seen
    assert part.asked <= 20
