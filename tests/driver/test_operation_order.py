"""Which operation may change a stream: none after a later one."""

import http.client
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.driver.agent import Agent
from dagster_sparkscale.driver.operation_order import OperationOrder, OutOfOrder
from tests.driver.serving import ask
from tests.waiting import wait_for

OVERTAKEN = "operation: 6: a later operation, 7, has taken over; nothing was changed"


@given(st.lists(st.none() | st.integers(0, 9)))
def test_the_numbers_of_those_admitted_never_fall(numbers: list[int | None]) -> None:
    order, admitted = OperationOrder(), list[int]()
    for number in numbers:
        highest = max(admitted, default=None)
        try:
            order.admit(number)
        except OutOfOrder as overtaken:
            assert number is not None and highest is not None and number < highest
            assert overtaken.latest == highest
        else:
            assert number is None or highest is None or number >= highest
            admitted += [] if number is None else [number]
        assert order.latest == max(admitted, default=None)


def put(client: http.client.HTTPConnection, target: int, **more: Any) -> tuple[int, Any]:
    return ask(client, "PUT", "/v1/executors", {"epoch": 4, "target": target, **more})


CHANGES = [
    ("PUT", "/v1/executors", {"target": 3}, 503),  # Spark is not there yet
    ("PUT", "/v1/rates", {"rates": {"web": {"maxRate": 1}}}, 503),  # nor a file for them
    ("POST", "/v1/receivers/0/move", {"executor": "1"}, 503),
    ("POST", "/v1/stop", {"graceful": False}, 202),
]


@pytest.mark.parametrize(("method", "path", "body", "done"), CHANGES)
def test_a_change_of_an_earlier_operation_is_refused(
    client: http.client.HTTPConnection,
    agent: Agent,
    stops: list[Any],
    method: str,
    path: str,
    body: dict[str, Any],
    done: int,
) -> None:
    agent.admission.operations.admit(7)
    late = {**body, "epoch": 4, "operation": 6}
    code, answer = ask(client, method, path, late)
    assert (code, answer) == (409, {"error": OVERTAKEN, "epoch": 4, "operation": 7})
    assert stops == []
    # The same again, the next one, and one of a Dagster side without numbers.
    for operation in (7, 8, None):
        sent = {**body, "epoch": 4, "operation": operation}
        assert ask(client, method, path, sent)[0] == done
    assert ask(client, method, path, {**body, "epoch": 4})[0] == done
    assert ask(client, "GET", "/v1/status")[1]["operation"] == 8
    if done == 202:
        wait_for("the stops are passed on", lambda: len(stops) == 4)


@pytest.mark.parametrize(("method", "path", "body", "done"), CHANGES)
def test_an_operation_for_another_epoch_is_none_for_this_one(
    client: http.client.HTTPConnection,
    method: str,
    path: str,
    body: dict[str, Any],
    done: int,
) -> None:
    code, answer = ask(client, method, path, {**body, "epoch": 3, "operation": 9})
    assert (code, answer["error"]) == (409, "epoch: 3: this driver's is 4")
    assert "operation" not in answer
    assert ask(client, "GET", "/v1/status")[1]["operation"] is None


@pytest.mark.parametrize("number", [-1, 1.0, "7", True, 2**63, []])
def test_what_is_no_number_of_an_operation_is_refused(
    client: http.client.HTTPConnection, number: Any
) -> None:
    code, answer = put(client, 3, operation=number)
    assert code == 400
    assert answer["error"].startswith("operation: ")
    assert answer["error"].endswith(": must be the number of an operation, or null")
