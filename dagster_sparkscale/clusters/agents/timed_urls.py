"""What the web servers of masters, workers and YARN answer, with a deadline for all of it.

What must not change: no proxy is asked, for they are on this network, often on this host.
"""

import ssl
import time
import urllib.request
from http.client import HTTPResponse

from dagster_sparkscale.clusters.agents.timed_http import Connection, SecureConnection


class _Timed(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
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
    """What is answered to a request; to be read, as a context manager, before it is too late.

    Args:
        seconds: for all of it, from connecting to the last byte that is read.
        handlers: in the place of urllib's own.
        context: of TLS; None: the default one.

    Raises:
        urllib.error.HTTPError: it is refused.
        OSError, HTTPException, ValueError: nothing is answered.
    """
    timed = _Timed(time.monotonic() + seconds, context)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), timed, *handlers)
    found: HTTPResponse = opener.open(request)
    return found
