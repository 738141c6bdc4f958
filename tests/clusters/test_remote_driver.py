"""What is told of a driver that a worker has run, by what its master and its worker say."""

import json
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from dagster_sparkscale.clusters.host.folder_store import FolderStore
from dagster_sparkscale.clusters.records.store import Record, Submission
from dagster_sparkscale.clusters.standalone import remote_driver
from dagster_sparkscale.clusters.standalone.remote_driver import Masters, RemoteDriver
from dagster_sparkscale.clusters.standalone.submission import MAIN_CLASS
from dagster_sparkscale.driver import shipped
from tests.clusters.answering import Agent

RECORD = Record("1" * 16, 1, "running", 1.0, "here", (Submission(1, 1.0, "manual"),))
BEGUN = {shipped.AGENT: {"url": "http://127.0.0.1:9"}, "took.json": {}}
ENDED = {**BEGUN, shipped.EXIT: {"at": 2.0, "reason": "its JVM was killed"}}


@pytest.fixture
def driver(tmp_path: Path, agent: Agent, monkeypatch: pytest.MonkeyPatch) -> RemoteDriver:
    """Its worker, whose pages `agent` shows, has killed it."""
    monkeypatch.setattr(RemoteDriver, "EVERY", 0.01)
    monkeypatch.setattr(remote_driver, "_FIRST_REPORT", 0.0)
    known = {"id": "d1", "state": "KILLED", "worker": "w1", "mainclass": MAIN_CLASS}
    worker = {"id": "w1", "host": "h1", "state": "ALIVE", "webuiaddress": agent.url}
    overview = {"workers": [worker], "completeddrivers": [known]}
    folder = FolderStore(tmp_path / "state").folder("clicks")
    made = RemoteDriver(folder, RECORD, Masters([], lambda: overview, lambda _: True))
    made.files.create()
    made._note("remote", {"id": "d1"})
    return made


def say(agent: Agent, *words: Mapping[str, Any] | None) -> None:
    """Have the page of the driver's standard output show these words, one after the other; None:
    the worker is too busy to show it."""
    left = list(words)

    def act(asked: BaseHTTPRequestHandler) -> None:
        now = left.pop(0) if len(left) > 1 else left[0]
        if now is None:
            asked.send_error(503)
            return
        written = f"{shipped.line(now)}\n" if now else ""
        body = f"==== Bytes 0-9 of 9 of it ====\n{written}".encode()
        asked.send_response(200)
        asked.send_header("Content-Length", str(len(body)))
        asked.end_headers()
        asked.wfile.write(body)

    agent.act = act


def test_what_watches_it_may_take_its_time_to_tell_how_it_ended(
    driver: RemoteDriver, agent: Agent
) -> None:
    say(agent, BEGUN, BEGUN, BEGUN, BEGUN, ENDED)
    assert driver.describe().exit_reason == "its JVM was killed"
    assert json.loads(driver.files.exit.read_text())["told"] is True


def test_a_worker_too_busy_to_show_what_was_said_is_asked_again(
    driver: RemoteDriver, agent: Agent
) -> None:
    say(agent, None, None, None, None, ENDED)
    assert driver.describe().exit_reason == "its JVM was killed"


def test_of_one_that_never_began_no_word_is_waited_for(driver: RemoteDriver, agent: Agent) -> None:
    say(agent, {}, {}, {}, {}, ENDED)
    assert driver.describe().exit_reason == "killed by its worker"
