"""One connection to the agent of a driver: whom it leads to, on which way, and until when.

What must not change: nothing is sent, the token least of all, before the other side has proven that
it holds the key of the certificate that was given to the driver; every exchange ends in time.
"""

import os
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, lru_cache
from urllib.parse import urlsplit

from dagster_sparkscale.clusters.agents.timed_http import Connection, SecureConnection


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
