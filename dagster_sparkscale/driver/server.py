"""The agent's HTTP endpoint."""

import hmac
import io
import json
import math
import re
import socket
import socketserver
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from .agent import Agent
from .bounded_reader import BoundedReader
from .door import Door
from .metrics.exposition import CONTENT_TYPE, exposition
from .metrics.samples import samples
from .metrics.token import read_token
from .operation_order import OutOfOrder
from .request import BadRequest, NotReady, Request, WrongEpoch, shown
from .wire import Answer

MAX_BODY = 64 * 1024
"""Bytes of a request's body, at most."""
MAX_HEAD = 16 * 1024
"""Bytes that are read of a request before it has shown the token, at most: Python's own bounds are
6.5 MB a head."""
MAX_CONNECTIONS = 32
"""Connections of those who have shown the token, at most."""
MAX_READERS = 8
"""Connections on which the token for reading was shown and that wait for their answer, at most.
Beside those above: who scrapes metrics takes no connection of who controls."""
MAX_STRANGERS = 64
"""Connections on which nobody has shown the token yet, at most: the oldest makes room for the next.
"""
REQUEST_WITHIN = 15.0
"""Seconds from one answer (or the token) to the end of the next request. A bound on the whole: a
client that sends a byte now and then does not keep its connection longer."""
TOKEN_WITHIN = 5.0
"""Seconds from the connection to the token."""
LONGEST_STOP = 24 * 3600.0
METRICS = ("GET", "/metrics")
"""The one request that the token for reading is good for. The token that controls is good for all
others alone: so nobody has a reason to hand that one to who scrapes metrics."""


class HttpRefusal(Exception):
    """A request that is answered with an error."""

    def __init__(self, code: int, error: str) -> None:
        super().__init__(error)
        self.code = code


class Server(ThreadingHTTPServer):
    """Listens from the moment it is made; answers once `start` was called.

    Args:
        tls: what it speaks; None: HTTP without.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(
        self,
        bind: str,
        port: int,
        agent: Agent,
        stop: Callable[[bool, float], None],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        if ":" in bind:
            self.address_family = socket.AF_INET6
        self.agent, self.stop_program, self.tls = agent, stop, tls
        self.read_token = read_token(agent.options.token)
        self.door = Door(MAX_STRANGERS, known=MAX_CONNECTIONS, readers=MAX_READERS)
        super().__init__((bind, port), Handler)

    def start(self, poll_s: float = 0.5) -> None:
        """Answer requests on a thread of its own, which sees within `poll_s` that it shall end."""
        threading.Thread(
            target=self.serve_forever, args=(poll_s,), name="sparkscale-http", daemon=True
        ).start()

    def get_request(self) -> tuple[socket.socket, Any]:
        request, address = super().get_request()
        if self.tls is not None:
            # The handshake comes with the first read: on the connection's own thread, in its time.
            request = self.tls.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
        return request, address

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

    def server_bind(self) -> None:
        # Not HTTPServer's, which looks its own name up: that may take long, and is of no use.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke is no news."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "sparkscale", ""
    disable_nagle_algorithm = True
    timeout = REQUEST_WITHIN
    server: Server

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self._raw = BoundedReader(self.connection, TOKEN_WITHIN, MAX_HEAD)
        self.rfile = io.BufferedReader(self._raw)
        self._within = TOKEN_WITHIN

    def handle_one_request(self) -> None:
        self._raw.end_within(self._within)
        self._raw.bytes_left = MAX_HEAD
        super().handle_one_request()

    def _answer(self) -> None:
        afterwards: Callable[[], None] | None = None
        try:
            if (self.command, self.path.partition("?")[0]) == METRICS:
                self._send_metrics()
                return
            self._show_token(self.server.agent.options.token, "the stream's bearer token")
            self._admit()
            body = self._body()
            url = urlsplit(self.path)
            route = (self.command, url.path)
            if route == ("GET", "/v1/status"):
                code, answer = 200, self._status(url.query).as_json()
            elif route == ("POST", "/v1/stop"):
                code, answer, afterwards = self._stop(body)
            else:
                code, answer = 200, self._change(url.path, body).as_json()
        except (HttpRefusal, BadRequest, NotReady) as refusal:
            code, answer = refusal.code, {"error": str(refusal)}
        except (WrongEpoch, OutOfOrder) as refusal:
            code, answer = 409, {"error": str(refusal), "epoch": self.server.agent.options.epoch}
            if isinstance(refusal, OutOfOrder):
                answer["operation"] = refusal.latest
        except OSError:  # the client has gone, or took too long over its body
            self.close_connection = True
            return
        except Exception as error:
            code, answer = 500, {"error": f"the agent failed: {type(error).__name__}: {error}"}
        try:
            self._send(code, answer)
        finally:
            if afterwards is not None:
                afterwards()

    do_GET = do_PUT = do_POST = _answer

    def _show_token(self, token: str, which: str) -> None:
        given = self.headers.get("Authorization", "")
        if not hmac.compare_digest(given.encode("utf-8", "replace"), f"Bearer {token}".encode()):
            self.close_connection = True  # the body, unread, must not pass for a request
            raise HttpRefusal(401, f"Authorization: must be {which}")

    def _admit(self) -> None:
        if not self.server.door.admit(self.connection, "known"):
            self.close_connection = True
            raise HttpRefusal(503, f"{MAX_CONNECTIONS} connections are open: try again later")
        self._raw.bytes_left = MAX_BODY + MAX_HEAD  # what follows may be read with it
        if self._within != REQUEST_WITHIN:
            self._within = REQUEST_WITHIN
            self._raw.end_within(REQUEST_WITHIN)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding"):
            self.close_connection = True
            raise HttpRefusal(411, "Transfer-Encoding: give a Content-Length instead")
        text = self.headers.get("Content-Length", "0")
        if not (text.isascii() and text.isdigit()) or len(text) > 10 or int(text) > MAX_BODY:
            self.close_connection = True
            raise HttpRefusal(413, f"Content-Length: {text[:20]}: must be at most {MAX_BODY}")
        body = self.rfile.read(int(text))
        if len(body) < int(text):
            self.close_connection = True
            raise HttpRefusal(400, "the body ended early")
        return body

    def _status(self, query: str) -> Answer:
        asked = {name: values[-1] for name, values in parse_qs(query).items()}
        since, window = asked.get("since"), asked.get("window")
        if since is not None and not (since.isascii() and since.isdigit() and len(since) < 16):
            raise BadRequest(f"since: {since[:40]!r}: must be a sequence number")
        seconds: float | None = None
        if window is not None:
            try:
                seconds = float(window)
            except ValueError:
                seconds = math.nan
            if not 0 <= seconds < math.inf:
                raise BadRequest(f"window: {window[:40]!r}: must be a number of seconds")
        return self.server.agent.status(None if since is None else int(since), seconds)

    def _change(self, path: str, body: bytes) -> Answer:
        """What the agent has a route for."""
        agent = self.server.agent
        for (verb, pattern), route in agent.routes.items():
            found = re.fullmatch(re.sub(r"{\w+}", "([^/]*)", pattern), path)
            if verb == self.command and found is not None:
                route(Request(found.groups(), body, agent.options.epoch))
                return agent.status(batches=False)
        raise HttpRefusal(404, f"{self.command} {path[:100]}: there is no such thing here")

    def _stop(self, body: bytes) -> tuple[int, dict[str, Any], Callable[[], None]]:
        request, agent = Request((), body, self.server.agent.options.epoch), self.server.agent
        graceful = request.fields.get("graceful", True)
        if type(graceful) is not bool:
            raise BadRequest(f"graceful: {shown(graceful)}: must be true or false")
        timeout = request.fields.get("timeout", 120)
        if type(timeout) not in (int, float) or not 0 < timeout <= LONGEST_STOP:
            raise BadRequest(
                f"timeout: {shown(timeout)}: must be seconds, above 0 and at most "
                f"{LONGEST_STOP:.0f}"
            )
        agent.admission.operations.admit(request.operation)
        # Asked for once it is answered: an abrupt stop may end the process first.
        return 202, {"stopping": True}, lambda: self.server.stop_program(graceful, timeout)

    def _send_metrics(self) -> None:
        self._show_token(self.server.read_token, "the stream's token for reading metrics")
        # It ends with the answer, which may take seconds, and so makes room for the next reader.
        self.close_connection = True
        if not self.server.door.admit(self.connection, "readers"):
            raise HttpRefusal(503, f"{MAX_READERS} read metrics just now: try again later")
        content = exposition(samples(self.server.agent.status(batches=False))).encode()
        self._write(200, content, CONTENT_TYPE)

    def _send(self, code: int, answer: dict[str, Any]) -> None:
        self._write(code, json.dumps(answer, allow_nan=False).encode(), "application/json")

    def _write(self, code: int, content: bytes, kind: str) -> None:
        try:
            self.connection.settimeout(REQUEST_WITHIN)
            # Nobody reads what `send_response` adds, and a tick has a thousand heads to parse.
            self.send_response_only(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(content)
        except OSError:
            self.close_connection = True

    def send_error(self, code: int, message: str | None = None, explain: Any = None) -> None:
        """What http.server itself refuses, such as a malformed request, as JSON too."""
        self.close_connection = True
        self.request_version = getattr(self, "request_version", None) or "HTTP/1.1"
        self._send(code, {"error": message or self.responses.get(code, ("refused",))[0]})

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged: a sensor's would drown the program's own lines."""
