"""What a connection to the agent may do: how many there may be, how long one takes, how it ends."""

import contextlib
import http.client
import json
import queue
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from dagster_sparkscale.driver import server as server_module
from dagster_sparkscale.driver.server import MAX_BODY, MAX_CONNECTIONS, REQUEST_WITHIN, Server
from tests.driver.serving import TOKEN, all_of, ask, client_of, connected, is_answered
from tests.waiting import HANGS, wait_for


def test_a_body_that_is_too_large_is_not_read(client: http.client.HTTPConnection) -> None:
    headers = {"Content-Length": str(MAX_BODY + 1)}
    client.putrequest("PUT", "/v1/executors")
    for name, value in {**headers, "Authorization": f"Bearer {TOKEN}"}.items():
        client.putheader(name, value)
    client.endheaders()
    assert client.getresponse().status == 413


@pytest.mark.parametrize("length", ["-1", "x", "1e3", "\N{FULLWIDTH DIGIT NINE}"])
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
        connection.shutdown(socket.SHUT_WR)
        answer = all_of(connection)
    assert b" 400 " in answer and b"the body ended early" in answer
    assert stops == []


def test_silent_clients_do_not_keep_others_out(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "REQUEST_WITHIN", 0.5)
    with contextlib.ExitStack() as opened:
        for _ in range(MAX_CONNECTIONS + 5):
            opened.enter_context(connected(server))
        wait_for("somebody else is answered", lambda: is_answered(server))


def test_a_connection_too_many_is_closed_at_once_and_another_is_served_when_one_has_gone(
    server: Server,
) -> None:
    with contextlib.ExitStack() as opened:
        others = [opened.enter_context(connected(server)) for _ in range(MAX_CONNECTIONS)]
        with connected(server) as one_too_many:
            assert all_of(one_too_many) == b""
        others[0].close()
        wait_for("one that comes later is answered", lambda: is_answered(server))


def test_a_client_that_sends_a_byte_every_second_is_cut_off_like_a_silent_one(
    server: Server, monkeypatch: pytest.MonkeyPatch
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

    monkeypatch.setattr(server_module, "time", SimpleNamespace(monotonic=monotonic))
    with connected(server) as connection:
        opened.put(connection)
        with contextlib.suppress(ConnectionResetError):
            assert all_of(connection) == b""
    assert seconds <= REQUEST_WITHIN + 5


def test_a_client_that_asks_now_and_then_keeps_its_connection(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time it has is that of one request, not of the connection."""
    seconds = 0.0
    monkeypatch.setattr(server_module, "time", SimpleNamespace(monotonic=lambda: seconds))
    with contextlib.closing(client_of(server)) as client:
        for _ in range(6):
            assert ask(client, "GET", "/v1/status")[0] == 200
            seconds += 0.7 * REQUEST_WITHIN
