"""The REST servers of a Standalone cluster's masters, through which drivers are submitted.

Of several masters one is in charge; the others answer that they are not, and are passed over.
"""

import json
import time
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from dagster_sparkscale.clusters.agents.timed_http import Connection, SecureConnection
from dagster_sparkscale.clusters.errors import ClusterError

TIMEOUT = 15.0
"""Seconds for each request and all of its answer: a master asks itself for up to ten."""
_LONGEST = 1_000_000
_STANDBY = "Current state is not alive"
_NONE = "status/driver-none"
"""Asked for to see who answers."""


class Unanswered(ClusterError):
    """A master was asked and has not answered: it may have done it, or may yet do it."""


class _Passed(Exception):
    """This master can't answer; the text says why."""

    def __init__(self, why: str, *, may_be_done: bool = False) -> None:
        super().__init__(why)
        self.may_be_done = may_be_done
        """Whether it was asked, and may do it all the same."""


def create(urls: Sequence[str], body: Mapping[str, Any]) -> str:
    """Submit a driver; its id.

    Raises:
        Unanswered: a driver may have been made.
        ClusterError: the masters made no driver; says why.
    """
    # Found by what changes nothing: one that does not answer then is passed over, not to be waited
    # for with a driver that it may yet start.
    url, _ = _first(urls, "GET", _NONE)
    try:
        answer = _ask(url, "POST", "create", json.dumps(body).encode())
    except _Passed as why:
        if why.may_be_done:
            raise Unanswered(f"the master at {url} gave no answer: {why}") from None
        raise ClusterError(f"the master at {url} took no driver: {why}") from None
    id = answer.get("submissionId")
    if answer.get("success") is not True or not isinstance(id, str) or not id:
        raise ClusterError(f"the master refused to take a driver: {_said(answer)}")
    return id


def kill(urls: Sequence[str], id: str) -> None:
    """Have a driver killed. Returns when the master has told its worker to.

    Raises:
        ClusterError: no master does it; says why.
    """
    _, answer = _first(urls, "POST", f"kill/{id}", b"")
    if answer.get("success") is not True:
        raise ClusterError(f"the master did not kill {id}: {_said(answer)}")


def error_of(urls: Sequence[str], id: str) -> str | None:
    """What the worker could not start a driver for; None: it has told no such thing.

    Raises:
        ClusterError: no master says so.
    """
    _, answer = _first(urls, "GET", f"status/{id}")
    message = answer.get("message")
    # Without success it speaks of the request, not of the driver.
    is_error = answer.get("success") is True and isinstance(message, str) and message
    return message if is_error else None


def see_that_one_answers(urls: Sequence[str]) -> None:
    """
    Raises:
        ClusterError: no master that is in charge does.
    """
    _first(urls, "GET", _NONE)


def _first(urls: Sequence[str], method: str, path: str, body: bytes | None = None) -> Any:
    """URL and answer of the first master that is in charge. Only for what may be asked twice."""
    passed = []
    for url in urls:
        try:
            return url, _ask(url, method, path, body)
        except _Passed as why:
            passed.append(f"{url}: {why}")
    raise ClusterError(
        "no master takes drivers by REST (is one in charge, and spark.master.rest.enabled set to "
        f"true there?): {'; '.join(passed)}"
    )


def _ask(url: str, method: str, path: str, body: bytes | None) -> Any:
    parts = urlsplit(url)
    kind = SecureConnection if parts.scheme == "https" else Connection
    # Without proxies: the master is on this network, often on this host.
    connection = kind(parts.hostname or "", parts.port)
    connection.bound(time.monotonic() + TIMEOUT)
    try:
        try:
            connection.connect()
        except OSError as error:
            raise _Passed(error.strerror or str(error)) from None
        try:
            place = f"{parts.path.rstrip('/')}/v1/submissions/{path}"
            headers = {} if body is None else {"Content-Type": "application/json"}
            connection.request(method, place, body, headers)
            response = connection.getresponse()
            text = response.read(_LONGEST)
        except (OSError, HTTPException) as error:
            raise _Passed(repr(error), may_be_done=True) from None
    finally:
        connection.close()
    try:
        answer = json.loads(text)
    except ValueError:
        answer = None
    # So says a master that was busy for too long, or a proxy before it.
    late = response.status >= 500
    if not isinstance(answer, dict):
        what = "has failed" if late else "is no REST server of a master"
        raise _Passed(f"{what}, HTTP status {response.status}", may_be_done=late)
    if _STANDBY in _said(answer):
        raise _Passed(_said(answer))
    if late:
        raise _Passed(f"{_said(answer)}, HTTP status {response.status}", may_be_done=True)
    return answer


def _said(answer: Mapping[str, Any]) -> str:
    lines = str(answer.get("message") or "it does not say why").strip().splitlines()
    return " ".join(lines[:2])[:500]
