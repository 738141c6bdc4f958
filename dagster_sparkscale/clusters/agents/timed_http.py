"""HTTP of which every exchange has a deadline for all of it, from connecting to the last byte.

What the system takes to look a host name up can't be bounded from here.
"""

import io
import socket
import ssl
import time
import urllib.request
from collections.abc import Callable
from functools import partial
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import Any


class Connection(HTTPConnection):
    """A connection whose every exchange has a deadline for all of it: `http.client` has only a
    timeout for each step, and who drips byte after byte would hold the sensor up."""

    deadline = 0.0
    opener: Callable[[float], socket.socket] | None = None
    """What makes the connection in the place of this, given the deadline."""

    def bound(self, deadline: float) -> None:
        """Whatever is done from now on ends by `deadline`, or with TimeoutError."""
        self.deadline = deadline
        self.response_class = partial(_Response, deadline)  # type: ignore[assignment]  # it is called
        if self.sock is not None:
            self.sock.settimeout(_left(deadline))

    def connect(self) -> None:
        if self.opener is not None:
            self.sock = self.opener(self.deadline)
            self.sock.settimeout(_left(self.deadline))
            return
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


class SecureConnection(HTTPSConnection, Connection):
    """A connection over TLS, whose handshake ends within the time left to connect."""


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


class _Handlers(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Asks by connections that have a deadline, which is for all that a request is sent on to."""

    def __init__(self, deadline: float, context: ssl.SSLContext | None) -> None:
        # Not HTTPSHandler's own, which reads all authorities, also where nobody speaks TLS.
        urllib.request.AbstractHTTPHandler.__init__(self)
        self._deadline, self._tls = deadline, context

    def http_open(self, request: urllib.request.Request) -> HTTPResponse:
        return self.do_open(lambda host, **_: self._bound(Connection(host)), request)

    def https_open(self, request: urllib.request.Request) -> HTTPResponse:
        return self.do_open(
            lambda host, **_: self._bound(SecureConnection(host, context=self._tls)), request
        )

    def _bound(self, connection: Connection) -> Connection:
        connection.bound(self._deadline)
        return connection


def answer(
    request: urllib.request.Request | str,
    seconds: float,
    *handlers: urllib.request.BaseHandler,
    context: ssl.SSLContext | None = None,
) -> HTTPResponse:
    """What masters, workers or YARN answer to a request; to be read, as a context manager, before
    it is too late. No proxy is asked: they are on this network, often on this host.

    Args:
        seconds: for all of it, from connecting to the last byte that is read.
        handlers: in the place of urllib's own.
        context: of TLS; None: the default one.

    Raises:
        urllib.error.HTTPError: it is refused.
        OSError, HTTPException, ValueError: nothing is answered.
    """
    timed = _Handlers(time.monotonic() + seconds, context)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), timed, *handlers)
    found: HTTPResponse = opener.open(request)
    return found


def _left(deadline: float) -> float:
    """Seconds.

    Raises:
        TimeoutError: no time is left.
    """
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left
