"""A request to move a receiver, between who asks and the thread that acts; and over HTTP."""

import http.client
from typing import Any

import pytest

from dagster_sparkscale.driver.receivers.move_request import CannotMove, MoveRequest
from dagster_sparkscale.driver.request import NotReady
from tests.driver.serving import ask


def test_it_is_carried_out_once() -> None:
    request, done = MoveRequest(3, "1", None), list[int]()
    request.carry_out(lambda: done.append(1))
    request.carry_out(lambda: done.append(2))
    request.result()
    assert done == [1]


def test_who_has_waited_long_enough_withdraws_it() -> None:
    request = MoveRequest(3, "1", None)
    with pytest.raises(NotReady, match="receiver 3 was not moved"):
        request.result()
    request.carry_out(pytest.fail)


def test_what_is_being_carried_out_can_not_be_withdrawn() -> None:
    request = MoveRequest(3, "1", None)

    def asked_meanwhile() -> None:
        with pytest.raises(NotReady, match="receiver 3 may still be moved: look again"):
            request.result()

    request.carry_out(asked_meanwhile)
    request.result()


def test_why_it_can_not_be_is_for_who_asked() -> None:
    request = MoveRequest(3, "1", None)

    def refuse() -> None:
        raise CannotMove("executor: 1: it is about to leave; choose one that stays")

    request.carry_out(refuse)
    with pytest.raises(CannotMove, match="executor: 1"):
        request.result()


@pytest.mark.parametrize(
    ("stream", "body", "code", "field"),
    [
        ("x", {"executor": "1", "epoch": 4}, 400, "receiver"),
        ("-1", {"executor": "1", "epoch": 4}, 400, "receiver"),
        ("1.0", {"executor": "1", "epoch": 4}, 400, "receiver"),
        ("", {"executor": "1", "epoch": 4}, 400, "receiver"),
        ("9" * 30, {"executor": "1", "epoch": 4}, 400, "receiver"),
        ("3", {"executor": 1, "epoch": 4}, 400, "executor"),
        ("3", {"executor": "", "epoch": 4}, 400, "executor"),
        ("3", {"executor": "e" * 300, "epoch": 4}, 400, "executor"),
        ("3", {"executor": None, "epoch": 4}, 400, "executor"),
        ("3", {"epoch": 4}, 400, "executor"),
        ("3", [], 400, "body"),
        ("3", {"executor": "1"}, 400, "epoch"),
        ("3", {"executor": "1", "epoch": 3}, 409, "epoch"),
        ("3", {"executor": "1", "epoch": 4}, 503, "the driver is starting"),
    ],
)
def test_a_bad_move_is_refused(
    client: http.client.HTTPConnection, stream: str, body: Any, code: int, field: str
) -> None:
    answered, answer = ask(client, "POST", f"/v1/receivers/{stream}/move", body)
    assert answered == code
    assert answer["error"].startswith(field)
    assert ask(client, "GET", "/v1/status")[0] == 200  # on the same connection


@pytest.mark.parametrize("path", ["/v1/receivers/3", "/v1/receivers/3/move/", "/v1/receivers"])
def test_there_is_no_other_such_thing(client: http.client.HTTPConnection, path: str) -> None:
    assert ask(client, "POST", path, {"executor": "1", "epoch": 4})[0] == 404
    assert ask(client, "PUT", "/v1/receivers/3/move", {"executor": "1", "epoch": 4})[0] == 404
