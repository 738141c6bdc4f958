"""HTTP to the agents inside the drivers.

The sensor asks up to a thousand agents a minute and a tracked run asks one, so both a call and the
import must cost next to nothing: this is `http.client`, with connections kept open.

What must not change: no proxy is ever used (an agent on the loopback must not be asked through
one) and no redirect followed (the token would travel with it); the token shows in no text, error or
repr; an answer is bounded in size and time; no answer is AgentUnreachable, never a made-up status.
"""

import json
import socket
import threading
import time
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from dagster_sparkscale.clusters.errors import AgentRefused, AgentUnreachable, StaleEpoch

MAX_ANSWER = 16_000_000
IDLE_CONNECTIONS = 256
"""Connections kept open between calls: below the usual limit of 1024 open files of a process."""


class Connections:
    """Calls agents. One for the whole process; may be used from many threads at once."""

    def __init__(self, idle: int = IDLE_CONNECTIONS) -> None:
        self._limit = idle
        self._idle: dict[str, list[HTTPConnection]] = {}
        self._count = 0
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the connections that are kept open. The client can go on being used."""
        with self._lock:
            idle, self._idle, self._count = self._idle, {}, 0
        for connections in idle.values():
            for connection in connections:
                connection.close()

    def call(
        self,
        who: str,
        url: str,
        token: str,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        timeout: float,
    ) -> bytes:
        """What the agent answers.

        Args:
            who: the agent, for people.
            timeout: seconds for all of it.

        Raises:
            AgentUnreachable: no answer, or no usable one, in time.
            AgentRefused, StaleEpoch: it answered and refused.
        """
        headers = {"Authorization": f"Bearer {token}", "Connection": "keep-alive"}
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        deadline = time.monotonic() + timeout
        connection = self._take(url)
        reused = connection is not None
        while True:
            try:
                connection = connection or _connect(url)
                _set_timeout(connection, deadline)
                connection.request(method, path, data, headers)
                response = connection.getresponse()
                answer = _read(connection, response, deadline)
                break
            except (OSError, HTTPException, ValueError) as error:
                if connection is not None:
                    connection.close()
                # The agent may have closed an idle connection. Every call is idempotent, so one
                # that failed on a kept connection may be made again on a fresh one.
                if reused and not isinstance(error, TimeoutError):
                    connection, reused = None, False
                    continue
                raise AgentUnreachable(f"{who} gave no answer: {_reason(error, timeout)}") from None
        if response.will_close:
            connection.close()
        else:
            self._keep(url, connection)
        return _judge(who, response.status, answer)

    def _take(self, url: str) -> HTTPConnection | None:
        with self._lock:
            connections = self._idle.get(url)
            if not connections:
                return None
            self._count -= 1
            connection = connections.pop()
            if not connections:
                del self._idle[url]
            return connection

    def _keep(self, url: str, connection: HTTPConnection) -> None:
        with self._lock:
            if self._count < self._limit:
                self._idle.setdefault(url, []).append(connection)
                self._count += 1
                return
        connection.close()


def _connect(url: str) -> HTTPConnection:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("its address is not an http:// or https:// URL")
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    return kind(parts.hostname, parts.port)


def _set_timeout(connection: HTTPConnection, deadline: float) -> None:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    connection.timeout = left
    if connection.sock is not None:
        connection.sock.settimeout(left)


def _read(connection: HTTPConnection, response: HTTPResponse, deadline: float) -> bytes:
    """The answer's body. An agent that drips byte after byte must not hold the sensor up, so the
    deadline is for all of it and not for each read."""
    chunks: list[bytes] = []
    size = 0
    while True:
        sock = connection.sock  # already gone where the answer ends with the connection
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        if sock is not None:
            sock.settimeout(left)
        chunk = response.read1(65536)
        if not chunk:
            if response.length:
                raise ValueError("its answer was cut short")
            response.close()  # or the connection would count as busy and could not be kept
            return b"".join(chunks)
        size += len(chunk)
        if size > MAX_ANSWER:
            raise ValueError(f"its answer is longer than {MAX_ANSWER} bytes")
        chunks.append(chunk)


def _reason(error: Exception, timeout: float) -> str:
    if isinstance(error, TimeoutError):
        return f"nothing within {timeout:g} s"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, socket.gaierror):
        return "its host name is unknown here"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return str(error) or type(error).__name__


def _judge(who: str, code: int, data: bytes) -> bytes:
    """The answer, or the error that its status code means."""
    if 200 <= code < 300:
        return data
    try:
        answer = json.loads(data) if data else {}
    except (ValueError, RecursionError):
        answer = {}
    said = answer.get("error") if isinstance(answer, dict) else None
    text = str(said)[:500] if said else f"HTTP status {code}"
    if code == 401:
        raise AgentRefused(f"{who} refused the token: {text}")
    if code == 409:
        raise StaleEpoch(f"{who} belongs to another start of the stream: {text}")
    if code == 503:
        raise AgentUnreachable(f"{who} can't do it now: {text}")
    if code >= 500:
        raise AgentUnreachable(f"{who} failed: {text}")
    raise AgentRefused(f"{who} refused: {text}")


_shared: Connections | None = None


def shared_connections() -> Connections:
    """Those of this process, so that they are kept open between the ticks of a sensor."""
    global _shared
    if _shared is None:
        _shared = Connections()
    return _shared
