"""Drivers are submitted by the REST server of the master that is in charge."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.standalone import rest
from tests.clusters.answering import Agent, drips
from tests.waiting import patience

DEAD = "http://127.0.0.1:9"
STANDBY = "Current state is not alive: STANDBY. Can only accept driver submissions in ALIVE state."


@pytest.fixture
def standby() -> Iterator[Agent]:
    server = Agent()
    server.body = json.dumps({"success": False, "message": STANDBY}).encode()
    yield server
    server.close()


def says(server: Agent, **content: Any) -> None:
    server.body = json.dumps(content).encode()


def test_masters_that_are_down_or_stand_by_are_passed_over(agent: Agent, standby: Agent) -> None:
    says(agent, success=True, submissionId="driver-1")
    urls = [DEAD, standby.url, f"{agent.url}/prefix/"]
    assert rest.create(urls, {"action": "CreateSubmissionRequest"}) == "driver-1"
    verb, path, _, body = agent.asked[-1]
    assert (verb, path) == ("POST", "/prefix/v1/submissions/create")
    assert body == {"action": "CreateSubmissionRequest"}


def test_where_none_is_in_charge_each_says_why(standby: Agent) -> None:
    with pytest.raises(ClusterError, match=r"rest\.enabled.*refused; .*STANDBY") as caught:
        rest.create([DEAD, standby.url], {})
    assert not isinstance(caught.value, rest.Unanswered)


def test_what_is_no_rest_server_is_passed_over(agent: Agent) -> None:
    agent.code, agent.body = 404, b"<html>"
    with pytest.raises(ClusterError, match=r"no REST server of a master, HTTP status 404"):
        rest.create([agent.url], {})


def test_a_refusal_is_told_in_the_masters_words(agent: Agent, standby: Agent) -> None:
    says(agent, message="Malformed request: SubmitRestMissingFieldException: 'x'\n\tat a.b.c\n\td")
    with pytest.raises(ClusterError, match=r"refused to take a driver: Malformed request: .*'x'"):
        rest.create([standby.url, agent.url], {})


def posted(handler: BaseHTTPRequestHandler) -> bool:
    """Whether it was asked to change something. What only looks is answered."""
    if handler.command == "POST":
        return True
    handler.send_response(200)
    handler.send_header("Content-Length", "2")
    handler.end_headers()
    handler.wfile.write(b"{}")
    return False


@pytest.mark.usefixtures("soon_given_up")
def test_no_answer_to_what_was_asked_is_no_refusal(agent: Agent, standby: Agent) -> None:
    agent.act = lambda handler: posted(handler) and handler.connection.close()
    with pytest.raises(rest.Unanswered, match="gave no answer"):
        rest.create([standby.url, agent.url], {})


@pytest.mark.parametrize("body", [b"<h1>Gateway Timeout</h1>", b'{"message": "upstream is slow"}'])
@pytest.mark.parametrize("code", [500, 504])
def test_a_failure_after_it_was_asked_is_no_refusal(agent: Agent, code: int, body: bytes) -> None:
    """As of a master that was busy for longer than it asks itself, or of a proxy."""

    def act(handler: BaseHTTPRequestHandler) -> None:
        if posted(handler):
            handler.send_response(code)
            handler.send_header("Content-Length", str(len(body)))
            handler.end_headers()
            handler.wfile.write(body)

    agent.act = act
    with pytest.raises(rest.Unanswered, match=f"HTTP status {code}"):
        rest.create([agent.url], {})


@pytest.fixture
def soon_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever does not answer."""
    monkeypatch.setattr(rest, "TIMEOUT", patience(2.0))


@pytest.mark.clusters
@pytest.mark.usefixtures("soon_given_up")
def test_a_master_that_is_frozen_is_passed_over_and_given_no_driver(
    agent: Agent, standby: Agent
) -> None:
    standby.act = lambda handler: handler.connection.close()
    says(agent, success=True, submissionId="driver-1")
    urls = [standby.url, agent.url]
    assert rest.create(urls, {}) == "driver-1"
    assert [verb for verb, *_ in standby.asked] == ["GET"]
    rest.kill(urls, "driver-1")
    assert rest.error_of(urls, "driver-1") is None


@pytest.mark.parametrize("whole", [False, True])
def test_a_master_that_drips_is_given_up(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    monkeypatch.setattr(rest, "TIMEOUT", 0.5)
    sent = drips(agent, json.dumps({"success": True}).encode(), whole=whole)
    with pytest.raises(ClusterError, match="timed out"):
        rest.see_that_one_answers([agent.url])
    assert not sent.is_set()


@pytest.mark.usefixtures("soon_given_up")
def test_where_all_are_frozen_no_driver_was_made(agent: Agent) -> None:
    agent.act = lambda handler: handler.connection.close()
    with pytest.raises(ClusterError, match="no master takes drivers") as caught:
        rest.create([agent.url], {})
    assert not isinstance(caught.value, rest.Unanswered)


def test_what_is_not_killed_is_told(agent: Agent) -> None:
    says(agent, success=True)
    rest.kill([agent.url], "driver-1")
    assert agent.asked[-1][:2] == ("POST", "/v1/submissions/kill/driver-1")
    says(agent, success=False, message="Driver driver-1 has already finished or does not exist")
    with pytest.raises(ClusterError, match=r"did not kill driver-1: .*already finished"):
        rest.kill([agent.url], "driver-1")


def test_the_error_of_a_worker_is_told_where_there_is_one(agent: Agent) -> None:
    says(agent, success=True, driverState="ERROR")
    assert rest.error_of([agent.url], "driver-1") is None
    says(agent, success=True, driverState="ERROR", message="Exception from the cluster: no java")
    assert rest.error_of([agent.url], "driver-1") == "Exception from the cluster: no java"
    says(agent, message="Missing an action: please specify one of /create, /kill, or /status.")
    assert rest.error_of([agent.url], "driver-1") is None  # that is the request's, not the driver's
