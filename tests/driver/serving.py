"""A server of an agent whose Spark has not been started, and how its clients ask."""

import contextlib
import http.client
import json
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dagster_sparkscale.clusters.agents.credentials import Credentials
from dagster_sparkscale.driver.agent import Agent
from dagster_sparkscale.driver.backpressure.rates import Rates
from dagster_sparkscale.driver.begin.options import Options, tls_of
from dagster_sparkscale.driver.main import compose
from dagster_sparkscale.driver.part import Core
from dagster_sparkscale.driver.server import Server
from tests.waiting import HANGS

TOKEN = "0123456789abcdef-token"


def options() -> Options:
    return Options(
        stream="clicks",
        epoch=4,
        interval_ms=1000,
        initial_executors=2,
        max_executors=None,
        token=TOKEN,
        program=Path("app.py"),
    )


def agent_of(options: Options, rates: Rates | None = None) -> Agent:
    core = Core(options)
    return Agent(core, compose(core, rates or Rates()))


def tls(folder: Path, credentials: Credentials) -> ssl.SSLContext:
    """What a driver speaks TLS by that was given these in files."""
    certificate, key = folder / "certificate", folder / "key"
    certificate.write_text(credentials.certificate)
    key.write_text(credentials.key)
    context = tls_of(str(certificate), str(key))
    assert context is not None
    return context


@contextlib.contextmanager
def serving(
    agent: Agent, stop: Callable[[bool, float], None], tls: ssl.SSLContext | None = None
) -> Iterator[Server]:
    running = Server("127.0.0.1", 0, agent, stop, tls)
    running.start(poll_s=0.01)
    try:
        yield running
    finally:
        running.shutdown()
        running.server_close()


def client_of(server: Server, timeout: float = HANGS) -> http.client.HTTPConnection:
    address = ("127.0.0.1", server.server_port)
    if server.tls is None:
        return http.client.HTTPConnection(*address, timeout=timeout)
    return http.client.HTTPSConnection(*address, timeout=timeout, context=_credulous())


def _credulous() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def ask(
    client: http.client.HTTPConnection,
    method: str,
    path: str,
    body: Any = None,
    token: str | None = TOKEN,
    **headers: str,
) -> tuple[int, Any]:
    given = dict(headers)
    if token is not None:
        given["Authorization"] = f"Bearer {token}"
    content = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    client.request(method, path, content, given)
    answer = client.getresponse()
    return answer.status, json.loads(answer.read())


def is_answered(server: Server) -> bool:
    """Whether somebody who comes now is."""
    with contextlib.closing(client_of(server)) as client:
        try:
            return ask(client, "GET", "/v1/status")[0] == 200
        except (OSError, http.client.HTTPException):
            return False


def connected(server: Server) -> socket.socket:
    connection = reached(server)
    return connection if server.tls is None else _credulous().wrap_socket(connection)


def reached(server: Server) -> socket.socket:
    """A connection on which nothing has been said yet, TLS's first words neither."""
    return socket.create_connection(("127.0.0.1", server.server_port), HANGS)


def all_of(connection: socket.socket) -> bytes:
    """What is answered until the server closes the connection."""
    return b"".join(iter(lambda: connection.recv(4096), b""))
