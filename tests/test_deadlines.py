"""Calls with a deadline: none is begun beside one of its kind that hangs."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from dagster_sparkscale.deadlines import Calls, DaemonCall, NoAnswer
from dagster_sparkscale.watch.reads import Reads
from tests.waiting import HANGS, wait_for


@pytest.mark.parametrize("first", [0, 1])
def test_none_begins_while_any_hangs_of_those_that_began_at_once(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, go_on = Calls(), [threading.Event(), threading.Event()]
    both_begun, within = threading.Barrier(2), DaemonCall.within
    came: list[object] = []

    def waits(call: DaemonCall[Any], seconds: float) -> Any:
        both_begun.wait(HANGS)
        return within(call, seconds)

    monkeypatch.setattr(DaemonCall, "within", waits)
    asking = [
        threading.Thread(
            target=lambda end=end: came.append(calls.within("kind", lambda: end.wait(HANGS), 0.01))
        )
        for end in go_on
    ]
    for each in asking:
        each.start()
    for each in asking:
        each.join(HANGS)
    assert [type(each) for each in came] == [NoAnswer, NoAnswer]
    monkeypatch.undo()
    assert calls.within("another kind", lambda: "here", HANGS) == "here"
    for left, end in ((1, go_on[first]), (0, go_on[1 - first])):
        said = calls.within("kind", lambda: "here", HANGS)
        assert isinstance(said, NoAnswer) and "asked before" in str(said)
        end.set()
        wait_for("it ends", lambda left=left: len(hanging()) == left)
    assert calls.within("kind", lambda: "here", HANGS) == "here"


def hanging() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "sparkscale-kind"]


@pytest.fixture
def lingering(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Threads of calls are alive for a while after the calls have ended."""
    end, run = threading.Event(), DaemonCall.run

    def lingers(call: DaemonCall[Any]) -> None:
        run(call)
        end.wait(HANGS)

    monkeypatch.setattr(DaemonCall, "run", lingers)
    yield
    end.set()


def test_a_call_that_has_ended_hangs_no_more(lingering: None) -> None:
    calls = Calls()
    for number in (1, 2):
        assert calls.within("kind", lambda: "here", HANGS) == "here"
        assert len(hanging()) == number


def test_a_read_that_has_ended_is_no_reason_to_read_no_more(lingering: None) -> None:
    reads = Reads()
    reads.tick(time.monotonic() + HANGS)
    assert [reads.within(lambda: "here") for _ in range(2)] == ["here", "here"]
    assert reads.given_up is None
