"""HTTP to the agents inside the drivers.

The sensor asks up to a thousand agents a minute and a tracked run asks one, so both a call and the
import must cost next to nothing: this is `http.client`, with connections kept open.

What must not change: no proxy is ever used (an agent on the loopback must not be asked through
one) and no redirect followed (the token would travel with it); the token shows in no text, error or
repr; an answer is bounded in size and time; no answer is AgentUnreachable, never a made-up status.
"""

import io
import json
import socket
import threading
import time
from collections.abc import Mapping
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from dagster_sparkscale.clusters.errors import (
    AgentRefused,
    AgentUnreachable,
    StaleEpoch,
    Superseded,
)

MAX_ANSWER = 16_000_000
IDLE_CONNECTIONS = 256
"""Connections kept open between calls: below the usual limit of 1024 open files of a process."""


class Connections:
    """Calls agents. One for the whole process; may be used from many threads at once."""

    def __init__(self, idle: int = IDLE_CONNECTIONS) -> None:
        self._limit = idle
        # The one that has been idle for longest first, with the address that each leads to.
        self._idle: dict[_Connection, str] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the connections that are kept open. The client can go on being used."""
        with self._lock:
            idle, self._idle = self._idle, {}
        for connection in idle:
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
            url: of the agent. One with a path, such as an ingress gives it, is asked below that.
            path: of what is asked, from the agent's own root on.
            timeout: seconds for all of it, from connecting to the answer's last byte. What the
                system takes to look a host name up can't be bounded from here.

        Raises:
            AgentUnreachable: no answer, or no usable one, in time.
            AgentRefused, StaleEpoch, Superseded: it answered and refused.
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
                connection = connection or _connection(url)
                connection.bound(deadline)
                connection.request(method, urlsplit(url).path.rstrip("/") + path, data, headers)
                response = connection.getresponse()
                answer = _read(response)
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

    def _take(self, url: str) -> "_Connection | None":
        with self._lock:
            # The latest first: it is the least likely to have been closed over there.
            for connection in reversed(self._idle):
                if self._idle[connection] == url:
                    del self._idle[connection]
                    return connection
        return None

    def _keep(self, url: str, connection: "_Connection") -> None:
        """Keep it for the next call. Of too many, that goes that has been idle for longest: its
        driver may be gone, or have another address by now, and nobody will ask for it again."""
        with self._lock:
            self._idle[connection] = url
            if len(self._idle) <= self._limit:
                return
            oldest = next(iter(self._idle))
            del self._idle[oldest]
        oldest.close()


class _Connection(HTTPConnection):
    """A connection whose every exchange has a deadline for all of it: `http.client` has only a
    timeout for each step, and an agent that drips byte after byte would hold the sensor up."""

    deadline = 0.0

    def bound(self, deadline: float) -> None:
        """Whatever is done from now on ends by `deadline`, or with TimeoutError."""
        self.deadline = deadline
        self.response_class = partial(_Response, deadline)  # type: ignore[assignment]  # it is called
        if self.sock is not None:
            self.sock.settimeout(_left(deadline))

    def connect(self) -> None:
        # As it is inherited, but the time is for all addresses of the host together: one that
        # swallows everything leaves a share to the next.
        found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        for number, (*kind, _, address) in enumerate(found):
            sock = socket.socket(*kind)
            try:
                sock.settimeout(_left(self.deadline) / (len(found) - number))
                sock.connect(address)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.settimeout(_left(self.deadline))
            except OSError:
                sock.close()
                if number == len(found) - 1:
                    raise
            else:
                self.sock = sock
                return


class _SecureConnection(HTTPSConnection, _Connection):
    """The same over TLS, whose handshake heeds the time that connecting has left."""


class _Response(HTTPResponse):
    """An answer whose head and body are read until a deadline."""

    def __init__(self, deadline: float, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.fp = io.BufferedReader(_Timed(sock, self.fp.detach(), deadline))


class _Timed(io.RawIOBase):
    """What comes over a connection, until a deadline."""

    def __init__(self, sock: socket.socket, raw: io.RawIOBase, deadline: float) -> None:
        self._sock, self._raw, self._deadline = sock, raw, deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(_left(self._deadline))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _connection(url: str) -> _Connection:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("its address is not an http:// or https:// URL")
    kind = _SecureConnection if parts.scheme == "https" else _Connection
    return kind(parts.hostname, parts.port)


def _left(deadline: float) -> float:
    """Seconds.

    Raises:
        TimeoutError: none.
    """
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _read(response: HTTPResponse) -> bytes:
    """The answer's body."""
    chunks: list[bytes] = []
    size = 0
    while chunk := response.read1(65536):
        size += len(chunk)
        if size > MAX_ANSWER:
            raise ValueError(f"its answer is longer than {MAX_ANSWER} bytes")
        chunks.append(chunk)
    if response.length:
        raise ValueError("its answer was cut short")
    response.close()  # or the connection would count as busy and could not be kept
    return b"".join(chunks)


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
    if code == 409 and isinstance(answer, dict) and "operation" in answer:
        raise Superseded(f"{who} has been changed by a later operation: {text}")
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
