"""HTTP of which every exchange has a deadline for all of it, from connecting to the last byte.

What the system takes to look a host name up can't be bounded from here.
"""

import io
import socket
import time
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


def _left(deadline: float) -> float:
    """Seconds.

    Raises:
        TimeoutError: no time is left.
    """
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left
