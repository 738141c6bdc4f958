"""Addresses that alerts are sent to.

An address often has a secret in it. It shows nowhere: not in a `repr`, an error, a log or a cursor.
"""

import json
import logging
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

import dagster as dg

from dagster_sparkscale.deadlines import DaemonCall
from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.declare.faults import shown
from dagster_sparkscale.declare.fields import check_switch
from dagster_sparkscale.watch.alerts.alerts import Alert, Outcome

CONNECT, ANSWER = 4.0, 6.0
"""Seconds for a connection, and for an answer."""
LONGEST = 12.0
"""Seconds after which an alert is given up for now, whatever it hangs on, such as a name server."""

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
"""A name, as RFC 9110 has it."""
_TRY_AGAIN = (408, 425, 429)


@dataclass(frozen=True)
class Sent:
    """What came of sending an alert."""

    outcome: Outcome
    why: str = ""


@dataclass(frozen=True)
class Webhook:
    """An address that takes alerts as JSON, by POST.

    For a service that wants another JSON, make a subclass with a method `payload` of its own.

    Args:
        url: begins with https:// or http://. `dg.EnvVar("NAME")` reads it from the environment when
            an alert is sent.
        headers: such as `{"Authorization": dg.EnvVar("NAME")}`.
        dagster_url: where Dagster's UI is, for links: `https://dagster.example.com`.
        texts: whether it is sent what a program or a check said, such as the error of a query;
            else only which stream, which problem and since when.

    Raises:
        DeclarationError: an address that is none, or another value that can't be.
    """

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    dagster_url: str = ""
    texts: bool = True
    _hanging: list[DaemonCall[Any]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )
    """What has not come to an end within `LONGEST`."""

    def __post_init__(self) -> None:
        if not isinstance(self.url, dg.EnvVar) and not _is_address(self.url):
            raise DeclarationError(
                "url: no address (it is not shown, for it may hold a secret); must begin with "
                'https:// or http:// and have no space in it, or be dg.EnvVar("NAME")'
            )
        if isinstance(self.dagster_url, dg.EnvVar):
            raise DeclarationError(
                "dagster_url: an EnvVar is not looked up here; give its value, as by "
                'os.environ["NAME"]'
            )
        if self.dagster_url != "" and not _is_address(self.dagster_url):
            raise DeclarationError(
                f"dagster_url = {shown(self.dagster_url)}: must begin with https:// or http:// "
                "and have no space in it"
            )
        check_switch("texts", self.texts)
        _check_headers(self.headers)

    def payload(self, alert: Alert, dropped: int) -> Mapping[str, Any]:
        """The JSON of an alert.

        Args:
            dropped: how many before it could not be delivered.
        """
        one = alert.occurrence
        return {
            "id": alert.id,
            "status": alert.status,
            "stream": one.stream,
            "problem": one.problem,
            "since": iso(one.since),
            "at": iso(alert.at),
            "text": str(alert),
            "link": self.link(alert),
            "dropped_before": dropped,
        }

    def link(self, alert: Alert) -> str | None:
        """The stream's page in Dagster's UI; None where it is not known where that is."""
        page = alert.occurrence.page
        return self.dagster_url.rstrip("/") + page if self.dagster_url and page else None

    def why_nowhere(self) -> str | None:
        """Why nothing can be sent by this environment; None: there is an address."""
        try:
            self._where()
        except LookupError as error:
            return str(error.args[0])
        return None

    def _where(self) -> tuple[str, Mapping[str, str]]:
        """The address and the headers as the environment has them now.

        Raises:
            LookupError: a variable is not set, or has no address in it.
        """
        url = _plain(self.url)
        if not _is_address(url):
            raise LookupError(f"{_name(self.url)} has no http or https address in it")
        return url, {name: _plain(value) for name, value in self.headers.items()}

    def send(self, alert: Alert, dropped: int = 0) -> Sent:
        """Send an alert, within `LONGEST` seconds. Never raises; says nothing of the address."""
        try:
            url, headers = self._where()
        except LookupError as error:
            return Sent(Outcome.UNANSWERED, str(error.args[0]))
        self._hanging[:] = [call for call in self._hanging if call.hangs]
        if self._hanging:
            return Sent(Outcome.UNANSWERED, "the one before still hangs")
        if not self.texts:
            alert = replace(alert, occurrence=replace(alert.occurrence, text=""))
        try:
            body = json.dumps(self.payload(alert, dropped), allow_nan=False)
        except Exception as error:  # of a subclass
            return Sent(Outcome.REFUSED, f"{type(self).__name__}.payload failed: {error!r}")
        # Not for ever: no timeout of requests is about name servers.
        call = DaemonCall(lambda: _post(url, headers, body), _THREAD)
        sent = call.within(LONGEST)
        if call.hangs:
            self._hanging.append(call)
        return Sent(Outcome.UNANSWERED, str(sent)) if isinstance(sent, Exception) else sent


class SlackWebhook(Webhook):
    """An incoming webhook of Slack, or of what takes the same, such as Mattermost."""

    def payload(self, alert: Alert, dropped: int) -> Mapping[str, Any]:
        mark = ":white_check_mark:" if alert.status == "resolved" else ":rotating_light:"
        text = f"{mark} {_for_slack(str(alert))}"
        if link := self.link(alert):
            text += f" <{link}|Open in Dagster>"
        if dropped:
            text += f" ({dropped} alerts before this one could not be delivered)"
        return {"text": text}


def _check_headers(headers: object) -> None:
    if not isinstance(headers, Mapping):
        raise DeclarationError(
            'headers: must be a dict, such as {"Authorization": dg.EnvVar("NAME")}'
        )
    for name, value in headers.items():
        if not isinstance(name, str) or not _HEADER.fullmatch(name):
            # Somebody may have written the value there.
            raise DeclarationError(
                "headers: a name is none of a header (it is not shown, for it may hold a secret); "
                'must be such as "Authorization"'
            )
        late = isinstance(value, dg.EnvVar)
        if not late and not (isinstance(value, str) and _is_one_line(value)):
            raise DeclarationError(
                f"headers[{name!r}]: its value (not shown, for it may be a secret) must be a line "
                'of text, or dg.EnvVar("NAME")'
            )


def _is_one_line(text: str) -> bool:
    return text == text.strip() and not {*"\r\n\0"} & {*text}


def iso(at: float) -> str:
    """Seconds since the epoch as ISO 8601, UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def _post(url: str, headers: Mapping[str, str], body: str) -> Sent:
    import requests

    _hush()
    try:
        in_url = requests.utils.get_auth_from_url(url)
        with requests.post(
            url,
            data=body.encode(),
            headers={"Content-Type": "application/json", **headers},
            # What requests finds in a .netrc would replace the header that was given.
            auth=in_url if any(in_url) else lambda request: request,
            timeout=(CONNECT, ANSWER),
            # What it leads to was not chosen by whoever gave the address, and would get it.
            allow_redirects=False,
            stream=True,  # nobody reads what else it says
        ) as answer:
            code = answer.status_code
    except Exception as error:  # its text has the address in it
        return Sent(Outcome.UNANSWERED, _in_words(error))
    if 200 <= code < 300:
        return Sent(Outcome.TAKEN)
    if code >= 500 or code in _TRY_AGAIN:
        return Sent(Outcome.UNANSWERED, f"the address answers {code}")
    hint = ", which leads elsewhere: give the address it leads to" if 300 <= code < 400 else ""
    return Sent(Outcome.REFUSED, f"the address answers {code}{hint}")


def _in_words(error: Exception) -> str:
    import requests

    if isinstance(error, requests.exceptions.ConnectTimeout):
        return f"no connection within {CONNECT:g} s"
    if isinstance(error, requests.exceptions.Timeout):
        return f"no answer within {ANSWER:g} s"
    if isinstance(error, requests.exceptions.SSLError):
        return "the certificate of the address is not accepted"
    if isinstance(error, requests.exceptions.ConnectionError):
        return "no connection: nobody is there, or its name is not known"
    return f"it can't be sent ({type(error).__name__})"


class _Hushed(logging.Filter):
    """Leaves out what libraries log while an alert is sent: they name its address."""

    def filter(self, record: logging.LogRecord) -> bool:
        return threading.current_thread().name != _THREAD


_THREAD = "sparkscale-alert"
_HUSHED = _Hushed()


def _hush() -> None:
    """Hush each logger of `requests` and `urllib3`: a filter holds for its own logger alone, and
    which of them name the address differs from release to release."""
    for name in tuple(logging.root.manager.loggerDict):
        if name.partition(".")[0] in ("requests", "urllib3"):
            logging.getLogger(name).addFilter(_HUSHED)  # the same one is added once


def _plain(value: str) -> str:
    """The value itself, also of what is in the environment: there it often ends in a newline, as
    one that was read from a file does.

    Raises:
        LookupError: the environment variable is not set.
    """
    if not isinstance(value, dg.EnvVar):
        return value
    plain = (value.get_value() or "").strip()
    if not plain:
        raise LookupError(f"{_name(value)} is not set")
    return plain


def _name(value: str) -> str:
    is_variable = isinstance(value, dg.EnvVar)
    return f"environment variable {value.env_var_name}" if is_variable else "url"  # type: ignore[attr-defined]


def _is_address(url: object) -> bool:
    if not isinstance(url, str) or any(map(str.isspace, url)):
        return False
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False


def _for_slack(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
