"""What a driver has written, read from a server that shows it as a worker of Spark's does."""

from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, urlsplit

import pytest

from dagster_sparkscale.clusters.standalone.worker_pages import Output, page
from dagster_sparkscale.driver import shipped
from tests.clusters.answering import Agent, drips

DEAD = "http://127.0.0.1:9"
LOG = "log 1\nlog 2\nlog 3\nlog 4\n"
PRINTED = f"batch 1\n\n{shipped.line({'took.json': {}})}\nbatch 2\nbatch 3\n"


def shows(worker: Agent, **written: str) -> Output:
    """The output of a driver, at a worker that has died and one that shows it."""

    def act(request: BaseHTTPRequestHandler) -> None:
        asked = {name: value[0] for name, value in parse_qs(urlsplit(request.path).query).items()}
        assert asked["driverId"] == "driver-1"
        text = written[asked["logType"]].encode()
        size = int(asked["byteLength"])
        start = int(asked.get("offset", max(0, len(text) - size)))
        part = text[start : start + size]
        body = b"==== Bytes %d-%d of %d ====\n" % (start, start + len(part), len(text)) + part
        request.send_response(200)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    worker.act = act
    return Output("driver-1", [DEAD, worker.url])


@pytest.mark.parametrize(
    ("lines", "shown"),
    [
        (0, []),
        (1, ["log 4"]),
        (2, ["log 4", "batch 3"]),
        (3, ["log 3", "log 4", "batch 3"]),
        (4, ["log 3", "log 4", "batch 2", "batch 3"]),
        (50, [*LOG.split("\n")[:-1], "batch 1", "batch 2", "batch 3"]),
    ],
)
def test_its_log_comes_before_what_it_has_printed(
    agent: Agent, lines: int, shown: list[str]
) -> None:
    output = shows(agent, stderr=LOG, stdout=PRINTED)
    assert output.log(lines).splitlines() == shown


def test_where_it_has_printed_nothing_all_lines_are_of_its_log(agent: Agent) -> None:
    assert shows(agent, stderr=LOG, stdout="").log(3).splitlines() == ["log 2", "log 3", "log 4"]


def test_its_last_word_counts(agent: Agent) -> None:
    words = [{"took.json": {}}, {"took.json": {}, shipped.EXIT: {"code": 1}}]
    output = shows(agent, stdout="\n".join(map(shipped.line, words)))
    assert output.last_report() == words[1]
    assert shows(agent, stdout="no word").last_report() == {}


def test_its_agent_is_where_its_worker_is(agent: Agent) -> None:
    announced = {"url": "https://ip-10-0-0-7:4040", "app_id": "app-1"}
    output = shows(agent, stdout=f"{shipped.line({shipped.AGENT: announced})}\n")
    assert output.agent() == {"url": "https://127.0.0.1:4040", "app_id": "app-1"}
    assert shows(agent, stdout=shipped.line({shipped.AGENT: None})).agent() is None


def test_a_mark_is_that_of_its_command_line_alone(agent: Agent) -> None:
    log = 'Launch Command: "java" "x/1/ab"\n========\n\n"y/1/ab"\n'
    output = shows(agent, stderr=log)
    assert output.is_marked("x/1/ab") and not output.is_marked("y/1/ab")
    assert not output.is_marked("x/1/a")


def test_what_is_no_page_of_a_worker_tells_nothing(agent: Agent) -> None:
    agent.body = b"<html>"
    output = Output("driver-1", [agent.url])
    assert (output.log(5), output.last_report(), output.agent()) == ("", None, None)
    assert not output.is_marked("x")


@pytest.mark.parametrize("whole", [False, True])
def test_a_worker_that_drips_is_given_up(agent: Agent, whole: bool) -> None:
    sent = drips(agent, b"==== Bytes 0-5 of 5 ====\nlog 1", whole=whole)
    assert page(agent.url, "driver-1", "stderr", timeout=0.5) is None
    assert not sent.is_set()
