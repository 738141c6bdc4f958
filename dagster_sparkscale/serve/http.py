"""The HTTP server of `sparkscale serve`: `GET /metrics`, the pages, and nothing that changes
anything.

A browser shows the token once, in a form, and then a cookie that follows from the token one way:
the token itself is in no page and in no cookie. What is live comes as server-sent events.
"""

import contextlib
import hashlib
import hmac
import io
import ipaddress
import json
import select
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from dagster_sparkscale.driver.bounded_reader import BoundedReader
from dagster_sparkscale.driver.door import Door
from dagster_sparkscale.driver.metrics.exposition import Sample
from dagster_sparkscale.serve.fleet import Busy
from dagster_sparkscale.serve.page.site import Answer, Site

MAX_HEAD = 16 * 1024
"""Bytes of a request, at most."""
REQUEST_WITHIN = 5.0
"""Seconds from the connection to the end of its request."""
ANSWER_WITHIN = 15.0
"""Seconds for each piece of the answer to go out."""
MAX_CONNECTIONS = 32
"""Connections of those who may read, at most."""
MAX_STRANGERS = 64
"""Connections on which nobody has shown yet that he may read, at most: the oldest makes room for
the next."""
SHORTEST_TOKEN = 16
"""Characters."""
MAX_LISTENERS = 16
"""Pages that are live at most; others ask again from time to time."""
BEAT = 10.0
"""Seconds between two lines to a live page, at most: it shows a connection that broke."""
_GLANCE = 0.5
"""Seconds between two looks whether it is still there."""
LISTENS_FOR = 3600.0
"""Seconds after which a live page has to connect anew."""
MAX_FORM = 2048
"""Bytes of the form with the token."""
COOKIE = "sparkscale"
POLICY = (
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "object-src 'none'"
)
"""What a page may load (Content Security Policy): nothing from elsewhere, nothing inline."""


def cookie_of(token: str) -> str:
    """What a browser shows in place of the token."""
    of = b"sparkscale serve: cookie of a page"
    return hmac.new(token.encode(), of, hashlib.sha256).hexdigest()


def read_token_file(path: Path) -> str:
    """The token in a file.

    Raises:
        ValueError: the file can't be read, or holds no token; names it.
    """
    try:
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "must be ASCII text"
        raise ValueError(f"{path}: {reason}") from None
    if len(token) < SHORTEST_TOKEN or not token.isprintable() or " " in token:
        raise ValueError(f"{path}: must hold one token of at least {SHORTEST_TOKEN} characters")
    return token


def is_loopback(host: str) -> bool:
    """Whether an address or name is this machine's own, which nobody else reaches."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class Server(ThreadingHTTPServer):
    """Listens from the moment it is made; answers once `serve_forever` is called.

    Args:
        samples: the metrics; may take seconds.
        token_file: is read at each request, so that its token may change; None: nobody needs one,
            and who asks must have called this machine by a name of its loopback, which no page in a
            browser can (DNS rebinding).
        prefix: begins the paths, as a proxy passes them on; empty: nothing does.
        site: the pages; None: there are none.
    """

    daemon_threads = True
    block_on_close = False
    # By default 5: of a browser that opens several connections at once, some would wait seconds.
    request_queue_size = MAX_CONNECTIONS

    def __init__(
        self,
        address: tuple[str, int],
        samples: Callable[[], Iterable[Sample]],
        *,
        token_file: Path | None = None,
        prefix: str = "",
        site: Site | None = None,
    ) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        self.samples, self.token_file, self.prefix = samples, token_file, prefix
        self.site = site
        self.ending = threading.Event()
        """Set when the server ends: live pages are not waited for."""
        self.listeners = threading.BoundedSemaphore(MAX_LISTENERS)
        self.door = Door(MAX_STRANGERS, readers=MAX_CONNECTIONS)
        super().__init__(address, Handler)

    def server_bind(self) -> None:
        # Not HTTPServer's, which looks its own name up: that may take long, and is of no use.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def shutdown(self) -> None:
        self.ending.set()
        super().shutdown()

    def server_close(self) -> None:
        self.ending.set()
        super().server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        self.door.came(request)
        try:
            super().process_request(request, client_address)
        except BaseException:
            self.door.gone(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.door.gone(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke is no news."""


_NO_MORE: Mapping[str, str] = {}


def _same(given: str, wanted: str) -> bool:
    """Compare what was shown with a secret, in a time that tells nothing of it."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())


class Handler(BaseHTTPRequestHandler):
    """One connection, which ends with the answer to its first request."""

    server_version, sys_version = "sparkscale", ""
    server: Server

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(BoundedReader(self.connection, REQUEST_WITHIN, MAX_HEAD))

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        prefix, site = self.server.prefix, self.server.site
        if path == f"{prefix}/-/healthy":
            self._send(200, b"alive\n")
        elif site is not None and (file := site.file(path.removeprefix(f"{prefix}/"))) is not None:
            self._send_answer(file)
        elif not self._may_read():
            return
        elif not self.server.door.admit(self.connection, "readers"):
            self._send(503, f"{MAX_CONNECTIONS} connections are open: ask again\n".encode())
        elif path == f"{prefix}/metrics":
            self._send_made(self._send_metrics)
        elif site is None or not (path == prefix or path.startswith(f"{prefix}/")):
            self._send(404, f"there is {prefix}/metrics here\n".encode())
        elif path == prefix:
            self._send_on(f"{prefix.rpartition('/')[2]}/")
        elif path == f"{prefix}/events":
            self._send_events(site)
        else:
            self._send_page(site, path.removeprefix(f"{prefix}/"), query)

    def do_HEAD(self) -> None:
        """Answer a load balancer that asks so whether the process is alive."""
        path = self.path.partition("?")[0]
        self._send(200 if path == f"{self.server.prefix}/-/healthy" else 405, b"")

    def do_POST(self) -> None:
        site, file = self.server.site, self.server.token_file
        if site is None or file is None or self.path != f"{self.server.prefix}/login":
            self._send(501, b"nothing is changed here\n")
            return
        length = self.headers.get("Content-Length", "")
        digits = length.isascii() and length.isdigit() and len(length) < 10
        if not (digits and int(length) <= MAX_FORM):
            self._send(413, f"Content-Length: must be at most {MAX_FORM}\n".encode())
            return
        form = dict(parse_qsl(self.rfile.read(int(length)).decode("utf-8", "replace")))
        try:
            token = read_token_file(file)
        except ValueError:
            self._send(503, b"the token file can't be read\n")
            return
        if not _same(form.get("token", "").strip(), token):
            self._send_answer(site.login(wrong=True))
            return
        secure = "; Secure" if self.headers.get("X-Forwarded-Proto", "") == "https" else ""
        path = f"Path={self.server.prefix}/; HttpOnly; SameSite=Lax{secure}"
        self._send_on("./", cookie=f"{COOKIE}={cookie_of(token)}; {path}")

    def _may_read(self) -> bool:
        """Whether the request may be answered; answers where it may not."""
        if self.server.token_file is None:
            host = self.headers.get("Host", "localhost")
            name = host.rpartition(":")[0] if not host.endswith("]") else host
            if is_loopback(name or host):
                return True
            self._send(403, b"Host: must be localhost, as there is no token file\n")
            return False
        try:
            token = read_token_file(self.server.token_file)
        except ValueError:
            self._send(503, b"the token file can't be read\n")
            return False
        if _same(self.headers.get("Authorization", ""), f"Bearer {token}"):
            return True
        site = self.server.site
        wanted = cookie_of(token)
        if site is not None and any(_same(each, wanted) for each in self._cookies()):
            return True
        if site is not None and "text/html" in self.headers.get("Accept", ""):
            self._send_answer(site.login(wrong=False))
        else:
            self._send(401, b"Authorization: must be the bearer token\n")
        return False

    def _cookies(self) -> Collection[str]:
        """The values of the cookies of this name: a browser sends that of another server at this
        host as well, where its path is longer or shorter. Not by `http.cookies`, which keeps one of
        them, and none behind a cookie of somebody else's that it can't read."""
        pairs = (each.strip().partition("=") for each in self.headers.get("Cookie", "").split(";"))
        return [value for name, _, value in pairs if name == COOKIE]

    def _send_page(self, site: Site, path: str, query: str) -> None:
        try:
            asked = dict(parse_qsl(query, max_num_fields=10))
        except ValueError:
            self._send(400, b"the address has too many values\n")
            return
        self._send_made(lambda: self._send_answer(site.answer(path, asked)))

    def _send_made(self, send: Callable[[], None]) -> None:
        """Send an answer, or why it can't be made: without one nobody knows what is wrong."""
        try:
            send()
        except Busy as error:
            self._send(503, f"{error}\n".encode())
        except Exception as error:
            text = f"this failed: {type(error).__name__}: {error}\n"
            self._send(500, text.encode(errors="replace"))

    def _send_events(self, site: Site) -> None:
        """Tell a page of each look until it goes away, or the server ends."""
        if not self.server.listeners.acquire(blocking=False):
            self._send(503, f"{MAX_LISTENERS} pages are live already\n".encode())
            return
        try:
            self.connection.settimeout(ANSWER_WITHIN)
            # nginx passes on what is written at once, and does not gather it.
            unbuffered = {"X-Accel-Buffering": "no"}
            self._begin(200, "text/event-stream; charset=utf-8", unbuffered)
            self._tell_of_looks(site)
        except OSError:
            return  # the page is gone
        finally:
            self.server.listeners.release()

    def _tell_of_looks(self, site: Site) -> None:
        until, number = time.monotonic() + LISTENS_FOR, None
        self.wfile.write(b"retry: 5000\n\n")
        while time.monotonic() < until:
            try:
                look = site.fleet.look()
            except Busy as error:
                told = f"event: busy\ndata: {json.dumps(str(error))}\n\n"
            else:
                new = look.number != number
                number = look.number
                told = f"event: look\ndata: {number}\n\n" if new else ": beat\n\n"
            self.wfile.write(told.encode())
            beat = time.monotonic() + BEAT
            while time.monotonic() < beat:
                if self.server.ending.wait(_GLANCE):
                    self.wfile.write(b"event: end\ndata: 0\n\n")
                    return
                if self._has_gone():
                    return

    def _has_gone(self) -> bool:
        """Whether the page has been closed: its place is free for another one at once, and not when
        a second line to it has failed."""
        if not select.select([self.connection], [], [], 0)[0]:
            return False
        return not self.connection.recv(1, socket.MSG_PEEK)

    def _send_metrics(self) -> None:
        from prometheus_client.exposition import choose_encoder

        try:
            encode, kind = choose_encoder(self.headers.get("Accept", ""))
        except (TypeError, ValueError):  # a version that is none
            encode, kind = choose_encoder("")
        self._send(200, encode(_Collected(self.server.samples())), kind)

    def _send_answer(self, answer: Answer) -> None:
        lasting = "private, max-age=86400" if answer.lasting else "no-store"
        content = answer.content.encode(errors="replace")
        self._send(answer.code, content, answer.kind, {"Cache-Control": lasting})

    def _send_on(self, to: str, cookie: str | None = None) -> None:
        # Relative: a proxy may have taken a prefix away.
        more = {"Location": to} if cookie is None else {"Location": to, "Set-Cookie": cookie}
        self._send(303, b"", headers=more)

    def _send(
        self,
        code: int,
        content: bytes,
        kind: str = "text/plain; charset=utf-8",
        headers: Mapping[str, str] = _NO_MORE,
    ) -> None:
        with contextlib.suppress(OSError):
            self.connection.settimeout(ANSWER_WITHIN)
            self._begin(code, kind, {"Content-Length": str(len(content)), **headers})
            self.wfile.write(content)

    def _begin(self, code: int, kind: str, headers: Mapping[str, str] = _NO_MORE) -> None:
        self.send_response(code)
        told = {
            "Content-Type": kind,
            "Cache-Control": "no-store",
            "Content-Security-Policy": POLICY,
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "same-origin",
            "X-Content-Type-Options": "nosniff",
            **headers,
        }
        for name, value in told.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged: there is one every few seconds."""


def _encodable(value: str) -> str:
    # A program may name a query by half of a pair of UTF-16, which has no UTF-8.
    return value.encode("utf-8", "replace").decode()


class _Collected:
    """Samples as `prometheus_client` writes them: what it calls a registry."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._samples = samples

    def collect(self) -> Iterator[Any]:
        from prometheus_client.metrics_core import Metric

        families: dict[str, Any] = {}
        for each in self._samples:
            metric = each.metric
            if metric.name not in families:
                # A counter's own name is without the end that its samples have.
                name = metric.name
                if metric.kind == "counter":
                    name = name.removesuffix("_total")
                families[metric.name] = Metric(name, metric.help, metric.kind)
            labels = {label: _encodable(value) for label, value in each.labels.items()}
            families[metric.name].add_sample(metric.name + each.suffix, labels, each.value)
        yield from families.values()
