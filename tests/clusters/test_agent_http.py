"""Calls to agents that are slow, endless, gone, or not agents at all; connections kept open."""

import contextlib
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from dagster_sparkscale.clusters.agents.http import Connections
from dagster_sparkscale.clusters.errors import (
    AgentRefused,
    AgentUnreachable,
    NotMet,
    StaleEpoch,
)
from tests.clusters.answering import TOKEN, Agent, ask, remote
from tests.waiting import HANGS, patience


def test_a_silent_agent_is_given_up(connections: Connections, agent: Agent) -> None:
    over = threading.Event()

    def say_nothing(_: BaseHTTPRequestHandler) -> None:
        over.wait(HANGS)

    agent.act = say_nothing
    try:
        with pytest.raises(AgentUnreachable, match=r"gave no answer: nothing within 0\.2 s"):
            ask(connections, agent, timeout=0.2)
    finally:
        over.set()


def test_an_agent_that_drips_is_given_up(connections: Connections, agent: Agent) -> None:
    over = threading.Event()

    def drip(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "1000000")
        request.end_headers()
        while not over.wait(0.02):
            request.wfile.write(b" ")
            request.wfile.flush()

    agent.act = drip
    try:
        with pytest.raises(AgentUnreachable, match=r"nothing within 0\.5 s"):
            ask(connections, agent, timeout=0.5)
    finally:
        over.set()


def test_an_agent_whose_head_drips_is_given_up_before_it_is_whole(
    connections: Connections, agent: Agent
) -> None:
    over, dripped = threading.Event(), []
    seconds = round(patience(0.5), 1)  # in which it must have begun

    def drip(request: BaseHTTPRequestHandler) -> None:
        head = f"HTTP/1.1 200 OK\r\nX-Padding: {'x' * 200}\r\nContent-Length: 0\r\n\r\n"
        try:
            for byte in head.encode():
                request.wfile.write(bytes([byte]))
                dripped.append(byte)
                time.sleep(seconds / 10)
        finally:
            over.set()

    agent.act = drip
    with pytest.raises(AgentUnreachable, match=f"nothing within {seconds:g} s"):
        ask(connections, agent, timeout=seconds)
    # It is told by the connection that nobody listens any more.
    assert over.wait(HANGS)
    assert 0 < len(dripped) < 200


def test_a_handshake_that_is_not_answered_is_given_up(connections: Connections) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(AgentUnreachable, match=r"nothing within 0\.2 s"):
            remote(connections, url).status(0.2)


def test_an_address_that_swallows_everything_leaves_time_for_the_hosts_next(
    connections: Connections, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def addresses(*_: Any, **__: Any) -> list[Any]:
        kind = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
        return [(*kind, full.getsockname()), (*kind, agent.server.server_address)]

    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(2):  # whoever else connects to it waits
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        monkeypatch.setattr(socket, "getaddrinfo", addresses)
        assert ask(connections, agent, timeout=patience(4.0)).stream == "clicks"


def test_an_endless_answer_is_cut_off(
    connections: Connections, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dagster_sparkscale.clusters.agents.http.MAX_ANSWER", 100_000)
    agent.body = b" " * 200_000
    with pytest.raises(AgentUnreachable, match="longer than 100000 bytes"):
        ask(connections, agent)


def test_an_answer_cut_short_within_its_head_is_no_answer(
    connections: Connections, agent: Agent
) -> None:
    def hardly_begun(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(b"HTTP/1.1 200 OK\r\nServer: sparkscale\r\nContent-Le")
        request.close_connection = True

    agent.act = hardly_begun
    with pytest.raises(AgentUnreachable, match="its answer was cut short"):
        ask(connections, agent)


def test_an_answer_cut_short_is_no_answer(connections: Connections, agent: Agent) -> None:
    def half(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "1000")
        request.end_headers()
        request.wfile.write(b'{"stream": "clicks"')
        request.close_connection = True

    agent.act = half
    with pytest.raises(AgentUnreachable, match="its answer was cut short"):
        ask(connections, agent)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://127.0.0.1:9", "connection refused"),
        ("ftp://127.0.0.1", "not an http:// or https:// URL"),
        ("http://127.0.0.1:port", "Port could not be cast"),
        ("nonsense", "not an http:// or https:// URL"),
    ],
)
def test_an_address_that_leads_nowhere_is_named(
    connections: Connections, url: str, text: str
) -> None:
    with pytest.raises(AgentUnreachable) as caught:
        remote(connections, url).status(HANGS)
    assert f"the agent of 'clicks' at {url} gave no answer: " in str(caught.value)
    assert text in str(caught.value)


def test_a_host_that_no_name_server_knows_is_named(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    def addresses(host: str, *_: Any, **__: Any) -> list[Any]:
        raise socket.gaierror(socket.EAI_NONAME, f"{host}: Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", addresses)
    told = "at http://nowhere.invalid:80 gave no answer: its host name is unknown here"
    with pytest.raises(AgentUnreachable, match=told):
        remote(connections, "http://nowhere.invalid:80").status(HANGS)


def test_one_connection_serves_many_calls(connections: Connections, agent: Agent) -> None:
    for _ in range(5):
        ask(connections, agent)
    agent.code, agent.body = 409, b'{"error": "because"}'
    with pytest.raises(StaleEpoch):
        ask(connections, agent)
    assert agent.connections == 1


def test_a_connection_that_the_agent_has_closed_is_made_anew(
    connections: Connections, agent: Agent
) -> None:
    def close_quietly(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(len(agent.body)))
        request.end_headers()
        request.wfile.write(agent.body)
        request.close_connection = True

    agent.act = close_quietly
    for _ in range(3):
        ask(connections, agent)
    assert agent.connections == 3


def test_no_more_connections_are_kept_than_allowed(agent: Agent) -> None:
    connections = Connections(idle=0)
    for _ in range(3):
        ask(connections, agent)
    assert agent.connections == 3


def test_a_connection_to_a_driver_that_is_gone_makes_room_for_one_that_is_asked(
    agent: Agent,
) -> None:
    connections, gone = Connections(idle=1), Agent()
    try:
        ask(connections, gone)
        for _ in range(3):
            ask(connections, agent)
        assert agent.connections == 1
    finally:
        connections.close()
        gone.close()


def test_an_agent_behind_a_path_is_asked_below_it(connections: Connections, agent: Agent) -> None:
    for end in ("", "/"):
        remote(connections, f"{agent.url}/streams/clicks{end}").status(HANGS, window=60.0)
    assert [path for _, path, _, _ in agent.asked] == [
        "/streams/clicks/v1/status?window=60.000"
    ] * 2


def test_many_threads_share_it(connections: Connections, agent: Agent) -> None:
    faults: list[Exception] = []

    def work() -> None:
        try:
            for _ in range(20):
                ask(connections, agent)
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert len(agent.asked) == 320
    assert agent.connections <= 16


def test_no_proxy_is_used(
    connections: Connections, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert ask(connections, agent).stream == "clicks"


def test_a_redirect_is_not_followed(connections: Connections, agent: Agent) -> None:
    agent.code, agent.headers = 302, {"Location": agent.url + "/elsewhere"}
    with pytest.raises(AgentRefused, match="HTTP status 302"):
        ask(connections, agent)
    assert len(agent.asked) == 1


@pytest.mark.parametrize(
    ("code", "body", "can_t"),
    [
        (400, b'{"error": "target: -1: must not be negative"}', True),
        (400, b"<html>", False),  # somebody else's
        (401, b'{"error": "no"}', False),
        (403, b'{"error": "no"}', False),
        (404, b'{"error": "no"}', False),
    ],
)
def test_a_request_that_the_agent_can_t_meet_is_told_from_one_that_it_does_not_take(
    connections: Connections, agent: Agent, code: int, body: bytes, can_t: bool
) -> None:
    agent.code, agent.body = code, body
    with pytest.raises(AgentRefused) as caught:
        ask(connections, agent)
    assert isinstance(caught.value, NotMet) == can_t


def test_the_token_shows_nowhere(connections: Connections, agent: Agent) -> None:
    agent.code, agent.body = 401, b"{}"
    with pytest.raises(AgentRefused) as caught:
        ask(connections, agent)
    context: BaseException | None = caught.value
    while context is not None:
        assert TOKEN not in str(context) + repr(context)
        context = context.__cause__
    agent_there = remote(connections, agent.url)
    assert TOKEN not in repr(agent_there) + repr(connections) + repr(vars(connections))


def test_a_deadline_already_past_asks_nobody(connections: Connections, agent: Agent) -> None:
    with pytest.raises(AgentUnreachable, match="nothing within 0 s"):
        ask(connections, agent, timeout=0.0)
    assert agent.asked == []
