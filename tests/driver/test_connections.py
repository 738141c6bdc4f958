"""What a connection to the agent may do, with TLS and without: how many there may be, how long one
takes, how it ends."""

import contextlib
import http.client
import json
import queue
import socket
import ssl
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dagster_sparkscale.clusters.agents import credentials
from dagster_sparkscale.driver import bounded_reader
from dagster_sparkscale.driver import server as server_module
from dagster_sparkscale.driver.agent import Agent
from dagster_sparkscale.driver.server import (
    MAX_BODY,
    MAX_CONNECTIONS,
    MAX_STRANGERS,
    REQUEST_WITHIN,
    TOKEN_WITHIN,
    Server,
)
from tests.driver.serving import (
    TOKEN,
    all_of,
    ask,
    client_of,
    connected,
    is_answered,
    reached,
    serving,
    tls,
)
from tests.waiting import HANGS, wait_for


@pytest.fixture(params=["http", "https"])
def server(
    request: pytest.FixtureRequest, agent: Agent, stops: list[Any], tmp_path: Path
) -> Iterator[Server]:
    secure = tls(tmp_path, credentials.make("clicks", 4)) if request.param == "https" else None
    with serving(agent, lambda graceful, s: stops.append((graceful, s)), secure) as running:
        yield running


def test_a_body_that_is_too_large_is_not_read(client: http.client.HTTPConnection) -> None:
    headers = {"Content-Length": str(MAX_BODY + 1)}
    client.putrequest("PUT", "/v1/executors")
    for name, value in {**headers, "Authorization": f"Bearer {TOKEN}"}.items():
        client.putheader(name, value)
    client.endheaders()
    assert client.getresponse().status == 413


@pytest.mark.parametrize(
    "length",
    ["-1", "x", "1e3", "\N{FULLWIDTH DIGIT NINE}", "3" * 12, "00000000003000000000", "9" * 5000],
)
def test_a_bad_length_is_refused(server: Server, length: str) -> None:
    with connected(server) as connection:
        request = f"PUT /v1/executors HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n"
        connection.sendall(f"{request}Content-Length: {length}\r\n\r\n".encode())
        assert b" 413 " in connection.recv(100)


def test_rubbish_is_answered_in_json(server: Server) -> None:
    with connected(server) as connection:
        connection.sendall(b"rubbish\r\n\r\n")
        answer = all_of(connection)
    assert json.loads(answer.rpartition(b"\r\n")[2])["error"]


def test_a_head_is_not_read_beyond_its_bound_without_the_token(server: Server) -> None:
    """Python's own server would take 100 lines of 64 KB from each."""
    head = b"GET /v1/status HTTP/1.1\r\n" + (b"x: " + b"a" * 65000 + b"\r\n") * 99

    def sends(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):  # it is ended while it sends
            connection.sendall(head)
            while connection.recv(4096):
                pass

    strangers = [threading.Thread(target=sends, args=[connected(server)]) for _ in range(8)]
    tracemalloc.start()
    try:
        for each in strangers:
            each.start()
        for each in strangers:
            each.join(HANGS)
        assert not any(each.is_alive() for each in strangers)
        assert tracemalloc.get_traced_memory()[1] < 8 * 2 * server_module.MAX_HEAD + 2**20
    finally:
        tracemalloc.stop()
    assert is_answered(server)


def test_a_head_just_below_its_bound_is_read(client: http.client.HTTPConnection) -> None:
    for _ in range(3):  # of each request anew
        code, _answer = ask(client, "GET", "/v1/status", **{"X-Long": "a" * 15_000})
        assert code == 200


@pytest.mark.parametrize(
    ("token", "header", "code"),
    [
        ("wrong", "Content-Length: 100", 401),
        (TOKEN, "Transfer-Encoding: chunked", 411),
        (TOKEN, f"Content-Length: {MAX_BODY + 1}", 413),
    ],
)
def test_a_body_that_was_refused_unread_does_not_pass_for_a_request(
    server: Server, stops: list[Any], token: str, header: str, code: int
) -> None:
    """Else it would be acted upon, and its answer be taken for that of the next request."""
    stop = f"POST /v1/stop HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 12\r\n\r\n"
    request = f"PUT /v1/executors HTTP/1.1\r\nAuthorization: Bearer {token}\r\n{header}\r\n\r\n"
    with connected(server) as connection:
        connection.sendall((request + stop).encode() + b'{"epoch": 4}')
        answer = all_of(connection)
    assert answer.startswith(b"HTTP/1.1 %d " % code)
    assert answer.count(b"HTTP/1.1") == 1
    assert stops == []


def test_a_body_that_ends_early_is_not_acted_upon(server: Server, stops: list[Any]) -> None:
    """Its beginning may be a whole request with another meaning."""
    request = (
        f"POST /v1/stop HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 40\r\n\r\n"
    )
    with connected(server) as connection:
        connection.sendall(request.encode() + b'{"epoch": 4}')
        socket.socket.shutdown(connection, socket.SHUT_WR)  # TLS's own would give it up
        answer = b""
        with contextlib.suppress(ssl.SSLError):  # as TLS has it of an end that it was not told of
            answer = all_of(connection)
    assert server.tls or (b" 400 " in answer and b"the body ended early" in answer)
    assert b" 202 " not in answer
    assert stops == []


def test_silent_clients_are_cut_off(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "TOKEN_WITHIN", 0.1)
    with reached(server) as connection:
        assert all_of(connection) == b""


def test_a_handshake_that_drips_is_cut_off(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "TOKEN_WITHIN", 0.3)
    # The head of a record of TLS, and of the first message in it, of 500 bytes that never come.
    hello = b"\x16\x03\x01\x01\xf8\x01\x00\x01\xf4\x03\x03" + b"x" * 493
    if server.tls is None:
        hello = b"GET /v1/status HTTP/1.1\r\nX-Padding: " + b"x" * 467
    with reached(server) as connection, contextlib.suppress(OSError):
        for sent in range(504):
            connection.sendall(hello[sent : sent + 1])
            time.sleep(0.02)
    assert 0 < sent < 503


def test_who_does_not_shake_hands_does_not_hold_up_others(server: Server) -> None:
    with contextlib.ExitStack() as opened:
        for _ in range(3):
            for _ in range(MAX_STRANGERS):
                opened.enter_context(reached(server))
            assert is_answered(server)


def test_one_that_speaks_no_tls_where_it_is_asked_for_is_told_nothing(
    agent: Agent, tmp_path: Path
) -> None:
    secure = tls(tmp_path, credentials.make("clicks", 4))
    with serving(agent, lambda *_: None, secure) as server:
        with reached(server) as connection:
            request = f"GET /v1/status HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
            connection.sendall(request.encode())
            with contextlib.suppress(ConnectionResetError):
                assert b"clicks" not in all_of(connection)
        assert is_answered(server)


@pytest.mark.parametrize("sent", [b"", b"GET /v1/status HT", b"GET /v1/status HTTP/1.1\r\nA: b"])
def test_whoever_has_the_token_is_served_however_many_have_not(server: Server, sent: bytes) -> None:
    """Not when those before have been cut off: at once, each time, on a connection of his own."""
    with contextlib.ExitStack() as opened:
        for _ in range(3):
            for _ in range(MAX_STRANGERS):
                opened.enter_context(connected(server)).sendall(sent)
            assert is_answered(server)


def test_strangers_do_not_end_a_connection_on_which_the_token_was_shown(server: Server) -> None:
    with contextlib.closing(client_of(server)) as client, contextlib.ExitStack() as opened:
        assert ask(client, "GET", "/v1/status")[0] == 200
        kept = client.sock
        for _ in range(2 * MAX_STRANGERS):
            opened.enter_context(connected(server))
        assert ask(client, "GET", "/v1/status")[0] == 200
        assert client.sock is kept


def test_of_strangers_too_many_the_one_who_came_first_goes(server: Server) -> None:
    with contextlib.ExitStack() as opened:
        others = [opened.enter_context(connected(server)) for _ in range(MAX_STRANGERS)]
        opened.enter_context(connected(server))
        assert all_of(others[0]) == b""
        # The others are still there.
        others[1].sendall(b"GET /v1/status HTTP/1.1\r\n\r\n")
        assert b" 401 " in all_of(others[1])


def test_of_those_with_the_token_one_too_many_is_told_and_another_served_when_one_has_gone(
    server: Server,
) -> None:
    with contextlib.ExitStack() as opened:
        clients = [
            opened.enter_context(contextlib.closing(client_of(server)))
            for _ in range(MAX_CONNECTIONS)
        ]
        assert {ask(client, "GET", "/v1/status")[0] for client in clients} == {200}
        with contextlib.closing(client_of(server)) as one_too_many:
            code, answer = ask(one_too_many, "GET", "/v1/status")
        assert (code, answer["error"]) == (503, "32 connections are open: try again later")
        clients[0].close()
        wait_for("one that comes later is answered", lambda: is_answered(server))


def test_a_client_that_sends_a_byte_every_second_is_cut_off_like_a_silent_one(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = queue.Queue[socket.socket]()
    client: socket.socket | None = None
    seconds = 0

    def monotonic() -> float:
        """Whenever the server looks at its clock, another byte has come, a second later."""
        nonlocal client, seconds
        client = client or opened.get(timeout=HANGS)
        seconds += 1
        with contextlib.suppress(OSError):
            client.sendall(b"G")
        return float(seconds)

    monkeypatch.setattr(bounded_reader, "time", SimpleNamespace(monotonic=monotonic))
    with serving(agent, lambda *_: None) as server, connected(server) as connection:
        opened.put(connection)
        with contextlib.suppress(ConnectionResetError):
            assert all_of(connection) == b""
    assert TOKEN_WITHIN < seconds <= TOKEN_WITHIN + 5


def test_one_who_has_shown_the_token_has_longer_for_the_rest(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = 0.0
    monkeypatch.setattr(bounded_reader, "time", SimpleNamespace(monotonic=lambda: seconds))
    body = json.dumps({"epoch": 3}).encode()
    request = f"POST /v1/stop HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n"
    with connected(server) as connection:
        connection.sendall(f"{request}Content-Length: {len(body)}\r\n\r\n".encode() + body[:3])
        wait_for("the token is seen", lambda: server.door._kept)
        seconds = (TOKEN_WITHIN + REQUEST_WITHIN) / 2
        connection.sendall(body[3:])
        assert b" 409 " in connection.recv(100)


def test_a_client_that_asks_now_and_then_keeps_its_connection(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time it has is that of one request, not of the connection."""
    seconds = 0.0
    monkeypatch.setattr(bounded_reader, "time", SimpleNamespace(monotonic=lambda: seconds))
    with contextlib.closing(client_of(server)) as client:
        for _ in range(6):
            assert ask(client, "GET", "/v1/status")[0] == 200
            seconds += 0.7 * REQUEST_WITHIN
