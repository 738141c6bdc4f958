"""Calls with a deadline: none is begun beside one of its kind that hangs."""

import threading
from typing import Any

import pytest

from dagster_sparkscale.deadlines import Calls, DaemonCall, NoAnswer
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
