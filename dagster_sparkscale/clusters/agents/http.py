"""HTTP to the agents inside the drivers.

The sensor asks up to a thousand agents a minute and a tracked run asks one, so both a call and the
import must cost next to nothing: this is `http.client`, with connections kept open.

What must not change: nothing is sent, the token least of all, before the other side has proven that
it holds the key of the certificate that was given to the driver; no proxy is ever used (an agent on
the loopback must not be asked through one) and no redirect followed (the token would travel with
it); the token shows in no text, error or repr; an answer is bounded in size and time; no answer is
AgentUnreachable, never a made-up status.
"""

import json
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from http.client import HTTPException, HTTPResponse, RemoteDisconnected
from typing import Any
from urllib.parse import urlsplit

from dagster_sparkscale.clusters.agents.timed_http import Connection, SecureConnection
from dagster_sparkscale.clusters.errors import (
    AgentRefused,
    AgentUnreachable,
    NotMet,
    StaleEpoch,
    Superseded,
)

MAX_ANSWER = 4_000_000
"""Bytes of an answer at most. A thousand batches and as many executors are less than one million;
and a tick holds the answers of all streams."""
IDLE_CONNECTIONS = 256
"""Connections kept open between calls: below the usual limit of 1024 open files of a process."""


@dataclass(frozen=True)
class Address:
    """The address of an agent, and the certificate that it must have."""

    url: str
    certificate: str | None = field(default=None, repr=False)
    """The one that its driver was given for itself alone, PEM: only who has that is talked to.
    None: with https://, who has one of a public authority for the host."""
    connect: Callable[[float], socket.socket] | None = field(
        default=None, repr=False, compare=False
    )
    """What makes the connection where the host of `url` can't be reached from here, as through the
    API server of Kubernetes. Given the time by which to have it (`time.monotonic()`); raises
    OSError. TLS goes over it as over any. No other agent's url may be equal to this one's."""


class _Secure(SecureConnection):
    """One over TLS, with whoever has a certificate."""

    pinned: bytes | None = None
    """The one certificate that will do, DER; None: what the context takes."""

    def connect(self) -> None:
        super().connect()
        if self.pinned is not None and self.sock.getpeercert(binary_form=True) != self.pinned:
            self.close()
            raise ValueError(
                "another server answers there, whose certificate is not this driver's: is the "
                "address out of date?"
            )


class Connections:
    """Calls agents. One for the whole process; may be used from many threads at once."""

    def __init__(self, idle: int = IDLE_CONNECTIONS) -> None:
        self._limit = idle
        # The one that has been idle for longest first, with the address that each leads to.
        self._idle: dict[Connection, Address] = {}
        self._to: dict[Address, list[Connection]] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the connections that are kept open. The client can go on being used."""
        with self._lock:
            idle, self._idle, self._to = self._idle, {}, {}
        for connection in idle:
            connection.close()

    def call(
        self,
        who: str,
        address: Address,
        token: str,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        timeout: float,
    ) -> bytes:
        """What the agent answers.

        Args:
            who: the agent, for people.
            address: of the agent. A URL with a path, such as an ingress gives it, is asked below
                that.
            path: of what is asked, from the agent's own root on.
            timeout: seconds for all of it, from connecting to the answer's last byte. What the
                system takes to look a host name up can't be bounded from here.

        Raises:
            AgentUnreachable: no answer, or no usable one, in time.
            AgentRefused, NotMet, StaleEpoch, Superseded: it answered and refused.
        """
        headers = {"Authorization": f"Bearer {token}", "Connection": "keep-alive"}
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        deadline = time.monotonic() + timeout
        connection = self._take(address)
        reused = connection is not None
        while True:
            try:
                connection = connection or _connection_to(address)
                connection.bound(deadline)
                below = urlsplit(address.url).path.rstrip("/")
                connection.request(method, below + path, data, headers)
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
            self._keep(address, connection)
        return _judge(who, response.status, answer)

    def _take(self, address: Address) -> Connection | None:
        with self._lock:
            if address not in self._to:
                return None
            # The latest first: it is the least likely to have been closed over there.
            return self._idle_no_more(self._to[address][-1])

    def _keep(self, address: Address, connection: Connection) -> None:
        """Keep it for the next call. Of too many, that goes that has been idle for longest: its
        driver may be gone, or have another address by now, and nobody will ask for it again."""
        with self._lock:
            self._idle[connection] = address
            self._to.setdefault(address, []).append(connection)
            if len(self._idle) <= self._limit:
                return
            oldest = self._idle_no_more(next(iter(self._idle)))
        oldest.close()

    def _idle_no_more(self, connection: Connection) -> Connection:
        address = self._idle.pop(connection)
        self._to[address].remove(connection)
        if not self._to[address]:
            del self._to[address]
        return connection


def _connection_to(address: Address) -> Connection:
    """A connection that is yet to be made.

    Raises:
        ValueError: the address is none.
        OSError: this machine's authorities can't be read.
    """
    parts = urlsplit(address.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("its address is not an http:// or https:// URL")
    if parts.scheme == "http":
        if address.certificate is not None:
            raise ValueError("its address is http://, and its token is for https:// alone")
        made = Connection(parts.hostname, parts.port)
    elif address.certificate is not None:
        made = _Secure(parts.hostname, parts.port, context=_any_certificate())
        made.pinned = ssl.PEM_cert_to_DER_cert(address.certificate)
    else:
        bundle = ssl.get_default_verify_paths().cafile
        context = _public_authorities(bundle, os.stat(bundle).st_mtime_ns if bundle else 0)
        made = _Secure(parts.hostname, parts.port, context=context)
    made.opener = address.connect
    return made


@cache
def _any_certificate() -> ssl.SSLContext:
    """A TLS context for connections whose certificate is compared byte by byte. That proves more
    than an authority's signature, a host name and dates, and depends on nobody's clock. The
    handshake proves, with this as with any context, that the other side has the key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@lru_cache(maxsize=1)
def _public_authorities(bundle: str | None, changed: int) -> ssl.SSLContext:
    """A TLS context for servers with a certificate of an authority that this machine trusts.

    To read all of them takes 20 ms: for a thousand agents, 20 s of every minute.

    Args:
        bundle: the file of authorities that Python reads, for as long as it has not `changed`.
    """
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _read(response: HTTPResponse) -> bytes:
    """The answer's body."""
    chunks: list[bytes] = []
    size = 0
    while chunk := response.read1(65536):
        size += len(chunk)
        if size > MAX_ANSWER:
            raise ValueError(f"its answer is longer than {MAX_ANSWER} bytes")
        chunks.append(chunk)
    # Of a head that ends too early, Python makes one without a length: then there is no body.
    if response.length or (not chunks and response.status < 300):
        raise ValueError("its answer was cut short")
    response.close()  # or the connection would count as busy and could not be kept
    return b"".join(chunks)


def _reason(error: Exception, timeout: float) -> str:
    if isinstance(error, TimeoutError):
        return f"nothing within {timeout:g} s"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, RemoteDisconnected):
        return "it hung up without a word"
    if isinstance(error, socket.gaierror):
        return "its host name is unknown here"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed, {error.reason or error}: does another server answer there?"
    if isinstance(error, OSError):
        return error.strerror or str(error) or type(error).__name__
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
    if code == 400 and said:  # nobody else's, such as a proxy's
        raise NotMet(f"{who} refused: {text}")
    raise AgentRefused(f"{who} refused: {text}")


@cache
def shared_connections() -> Connections:
    """The connections of this process, which stay open between the ticks of a sensor."""
    return Connections()
