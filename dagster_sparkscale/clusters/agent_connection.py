"""One connection to the agent of a driver: whom it leads to, on which way, and until when.

What must not change: nothing is sent, the token least of all, before the other side has proven that
it holds the key of the certificate that was given to the driver; every exchange ends in time.
"""

import io
import os
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

Server = tuple[str, str | None]
"""Who is at the other end of a connection that was kept open: a URL and a certificate."""


@dataclass(frozen=True)
class Address:
    """Where an agent is, and how it is known there."""

    url: str
    certificate: str | None = field(default=None, repr=False)
    """The one that its driver was given for itself alone, PEM: only who has that is talked to.
    None: with https://, who has one of a public authority for the host."""
    connect: Callable[[float], socket.socket] | None = field(default=None, repr=False)
    """What makes the connection where the host of `url` can't be reached from here, as through the
    API server of Kubernetes. Given the time by which to have it (`time.monotonic()`); raises
    OSError. TLS goes over it as over any. No other agent's url may be equal to this one's."""

    @property
    def server(self) -> Server:
        return self.url, self.certificate


class Connection(HTTPConnection):
    """A connection whose every exchange has a deadline for all of it: `http.client` has only a
    timeout for each step, and an agent that drips byte after byte would hold the sensor up."""

    deadline = 0.0
    opener: Callable[[float], socket.socket] | None = None

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


class _Secure(HTTPSConnection, Connection):
    """The same over TLS, whose handshake heeds the time that connecting has left."""

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


def connection_to(address: Address) -> Connection:
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
    """For connections whose certificate is compared byte by byte. That asks for more than an
    authority's signature, a host name and dates would, and does not depend on anybody's clock. The
    handshake proves, with this as with any context, that the other side has the key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@lru_cache(maxsize=1)
def _public_authorities(bundle: str | None, changed: int) -> ssl.SSLContext:
    """For connections to who has a certificate of an authority that this machine trusts.

    To read all of them takes 20 ms: for a thousand agents, 20 s of every minute.

    Args:
        bundle: the file of authorities that Python reads, for as long as it has not `changed`.
    """
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _left(deadline: float) -> float:
    """Seconds.

    Raises:
        TimeoutError: none.
    """
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
