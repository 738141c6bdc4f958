"""Posts one event to an OpenLineage server, by HTTP and the standard library."""

import http.client
import io
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dagster_sparkscale.driver.bounded_reader import BoundedReader

from .plan import LineagePlan

MOST = 64 * 1024
"""Bytes of an answer that are read, at most."""
REASON = 200
"""Characters of why an event was not taken, at most."""


class NotTaken(Exception):
    """The server did not take the event; the text says why, and has no secret in it."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirection: the key is for this server, and a POST would become a GET."""

    def redirect_request(self, *_: Any) -> None:
        return None


class _Answer(http.client.HTTPResponse):
    """An answer that has the time that its socket has left, as a whole: else a server that sends a
    byte now and then would have that time for each of them."""

    def __init__(self, sock: Any, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        # It keeps the socket open, and is not read.
        self._open = self.fp
        bounded = BoundedReader(sock, sock.gettimeout(), MOST, "the answer")
        self.fp = io.BufferedReader(bounded)

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._open.close()


class _Connection(http.client.HTTPConnection):
    """A connection whose timeout is for connecting, asking and the answer together; but for the
    look-up of a name, and each address of a host has it to connect."""

    response_class = _Answer

    def connect(self) -> None:
        self._until = time.monotonic() + (self.timeout or 0.0)
        super().connect()
        self._limit()

    def getresponse(self) -> http.client.HTTPResponse:
        self._limit()
        return super().getresponse()

    def _limit(self) -> None:
        self.sock.settimeout(max(0.001, self._until - time.monotonic()))


class _SecureConnection(http.client.HTTPSConnection, _Connection):
    """A `_Connection` by TLS, whose handshake has what connecting has left of that time."""


class _Http(urllib.request.HTTPHandler):
    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Connection, request)


class _Https(urllib.request.HTTPSHandler):
    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_SecureConnection, request)


def post(plan: LineagePlan, event: Mapping[str, Any], timeout: float) -> None:
    """Post `event` where `plan` says.

    Args:
        timeout: seconds, for all of it.

    Raises:
        NotTaken: it can't be said that the server has taken it.
    """
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"dagster-sparkscale/{plan.version or '-'}",
    }
    if (key := _key(plan)) is not None:
        headers["Authorization"] = f"Bearer {key}"
    body = json.dumps(event).encode()
    try:
        request = urllib.request.Request(plan.url, body, headers, method="POST")
        opener = urllib.request.build_opener(_NoRedirect(), _Http(), _Https())
        with opener.open(request, timeout=timeout) as answer:
            answer.read(1)
    except urllib.error.HTTPError as error:
        error.close()
        raise NotTaken(f"{plan.url} answered {error.code} {_short(error.reason)}") from None
    except (OSError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise NotTaken(f"{plan.url}: {_short(reason) or type(reason).__name__}") from None
    except ValueError as error:  # a key with a line break in it, which must not be repeated
        raise NotTaken(f"{plan.url}: {type(error).__name__}: is the key one line?") from None


def _short(reason: object) -> str:
    """A reason in one line: it may have what the server sent, which may be anything."""
    words = " ".join(str(reason).split())[:REASON]
    return "".join(each if each.isprintable() else "?" for each in words)  # terminals show it


def _key(plan: LineagePlan) -> str | None:
    """The key of the server; None: none is declared.

    Raises:
        NotTaken: it is declared, and not there.
    """
    if plan.api_key_env is not None:
        key = os.environ.get(plan.api_key_env, "").strip()
        where = f"the environment variable {plan.api_key_env}"
    elif plan.api_key_file is not None:
        where = plan.api_key_file
        try:
            key = Path(where).read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            raise NotTaken(f"{where}: can't be read: {type(error).__name__}") from None
    else:
        return None
    if not key:
        raise NotTaken(f"{where} has no key of the OpenLineage server")
    return key
