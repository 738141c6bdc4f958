"""The real HTTP server, over real connections, of an agent whose Spark has not been started."""

import http.client
import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dagster_sparkscale.driver.agent import Agent
from dagster_sparkscale.driver.begin.announce import announce, url_of
from dagster_sparkscale.driver.server import Server
from dagster_sparkscale.driver.wire import Batch
from dagster_sparkscale.observe.status import Status
from tests.driver.serving import TOKEN, ask, client_of, serving
from tests.waiting import wait_for


def test_before_spark_is_there_a_status_is_answered(
    client: http.client.HTTPConnection,
) -> None:
    code, answer = ask(client, "GET", "/v1/status")
    assert (code, answer["api"]) == (200, 1)
    status = Status.from_json(json.dumps(answer))
    assert (status.stream, status.epoch, status.phase) == ("clicks", 4, "starting")
    assert (status.spark_age, status.registered, status.requested) == (None, None, None)
    assert (status.queries, status.batches, status.executors) == ((), (), ())
    assert (status.receivers, status.relaunches) == (None, ())  # not known yet


def test_batches_are_answered_as_the_reader_wants_them(
    client: http.client.HTTPConnection, agent: Agent
) -> None:
    older = Batch("q", agent.started_at - 200, 9, 0, 0)
    old = Batch("q", agent.started_at - 100, 700, 3, 5, failed=True, batch_id=1)
    new = Batch("q", agent.started_at, 0, 0, 0, triggers=6)
    for each in (older, old, new):
        agent.history.add(each)
    status = Status.from_json(json.dumps(ask(client, "GET", "/v1/status")[1]))
    assert status.last_seq == 3
    # The first that a query has completed in this driver.
    assert status.batches == (older, replace(old, cold=True), new)
    # With the one before: since when that began, the next one has gathered its records.
    assert len(ask(client, "GET", "/v1/status?window=50")[1]["batches"]) == 2
    assert ask(client, "GET", "/v1/status?window=0")[1]["batches"] == []
    assert len(ask(client, "GET", "/v1/status?since=2")[1]["batches"]) == 1
    assert len(ask(client, "GET", "/v1/status?since=0&window=1000")[1]["batches"]) == 3
    assert ask(client, "GET", "/v1/status?since=9")[1]["batches"] == []


@pytest.mark.parametrize("query", ["since=-1", "since=x", "window=nan", "window=-1", "window=inf"])
def test_a_bad_question_is_refused(client: http.client.HTTPConnection, query: str) -> None:
    code, answer = ask(client, "GET", f"/v1/status?{query}")
    assert code == 400
    assert answer["error"].startswith(query.split("=")[0])


@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN + "x", TOKEN[:-1], "ÿ"])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(("GET", "/v1/status"), ("PUT", "/v1/executors"), ("PUT", "/v1/rates")),
        *(("POST", "/v1/receivers/0/move"), ("POST", "/v1/stop"), ("GET", "/none")),
    ],
)
def test_without_the_token_nothing_is_answered(
    server: Server, stops: list[Any], token: str | None, method: str, path: str
) -> None:
    client = client_of(server)
    code, answer = ask(client, method, path, {"epoch": 4, "target": 1}, token=token)
    assert (code, list(answer)) == (401, ["error"])
    assert stops == []
    client.close()


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({"target": 0, "epoch": 4}, 400, "target"),
        ({"target": -3, "epoch": 4}, 400, "target"),
        ({"target": 10_001, "epoch": 4}, 400, "target"),
        ({"target": 2.0, "epoch": 4}, 400, "target"),
        ({"target": True, "epoch": 4}, 400, "target"),
        ({"target": "2", "epoch": 4}, 400, "target"),
        ({"target": None, "epoch": 4}, 400, "target"),
        ({"epoch": 4}, 400, "target"),
        ({"target": 2}, 400, "epoch"),
        ({"target": 2, "epoch": "4"}, 400, "epoch"),
        ({"target": 2, "epoch": True}, 400, "epoch"),
        ([], 400, "body"),
        (b"", 400, "body"),
        (b"{", 400, "body"),
        (b"[" * 60_000, 400, "body"),
        (b"\xff", 400, "body"),
        ({"target": 2, "epoch": 3}, 409, "epoch"),
        ({"target": 2, "epoch": 5}, 409, "epoch"),
        ({"target": 1, "epoch": 4}, 503, "the driver is starting"),
        ({"target": 10_000, "epoch": 4}, 503, "the driver is starting"),
    ],
)
def test_targets(client: http.client.HTTPConnection, body: Any, code: int, field: str) -> None:
    answered, answer = ask(client, "PUT", "/v1/executors", body)
    assert answered == code
    assert answer["error"].startswith(field)
    if code == 409:
        assert answer["epoch"] == 4
    assert ask(client, "GET", "/v1/status")[0] == 200  # on the same connection


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"epoch": 4, "graceful": 1}, "graceful"),
        ({"epoch": 4, "timeout": 0}, "timeout"),
        ({"epoch": 4, "timeout": True}, "timeout"),
        ({"epoch": 4, "timeout": "1"}, "timeout"),
        ({"epoch": 4, "timeout": 1e9}, "timeout"),
        ({"graceful": True}, "epoch"),
    ],
)
def test_a_bad_stop_is_refused(
    client: http.client.HTTPConnection, stops: list[Any], body: Any, field: str
) -> None:
    code, answer = ask(client, "POST", "/v1/stop", body)
    assert (code, stops) == (400, [])
    assert answer["error"].startswith(field)


def test_a_stop_is_passed_on(client: http.client.HTTPConnection, stops: list[Any]) -> None:
    assert ask(client, "POST", "/v1/stop", {"epoch": 3})[0] == 409
    assert ask(client, "POST", "/v1/stop", {"epoch": 4, "graceful": False, "timeout": 9})[0] == 202
    wait_for("the stop is passed on", lambda: stops == [(False, 9)])


def test_a_stop_is_answered_before_it_is_passed_on(agent: Agent) -> None:
    """An abrupt one ends the process that answers."""
    answered, in_time = threading.Event(), list[bool]()
    with serving(agent, lambda graceful, s: in_time.append(answered.wait(30))) as server:
        client = client_of(server)
        assert ask(client, "POST", "/v1/stop", {"epoch": 4, "graceful": False})[0] == 202
        answered.set()
        wait_for("the stop is passed on", lambda: in_time == [True])
        client.close()


def test_what_does_not_exist_is_not_found(client: http.client.HTTPConnection) -> None:
    for method, path in (("GET", "/"), ("POST", "/v1/status"), ("GET", "/v1/executors")):
        assert ask(client, method, path)[0] == 404
    assert ask(client, "DELETE", "/v1/status")[0] == 501


def test_an_answer_does_not_tell_the_token(client: http.client.HTTPConnection) -> None:
    for path in ("/v1/status", "/nothing"):
        assert TOKEN not in json.dumps(ask(client, "GET", path)[1])


def test_an_announcement_is_for_its_user_only(tmp_path: Path) -> None:
    path = tmp_path / "agent.json"
    announce(path, {"url": url_of("127.0.0.1", 1), "app_id": None})
    announce(path, {"url": url_of("::1", 1), "app_id": "app-1"})
    assert json.loads(path.read_text()) == {"url": "http://[::1]:1", "app_id": "app-1"}
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["agent.json"]


def test_the_package_needs_neither_dagster_nor_pyspark_to_be_imported() -> None:
    code = (
        "import sys\n"
        "sys.modules['dagster'] = sys.modules['pyspark'] = sys.modules['py4j'] = None\n"
        "sys.modules['pydantic'] = sys.modules['requests'] = None\n"
        "import dagster_sparkscale.driver.__main__\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
