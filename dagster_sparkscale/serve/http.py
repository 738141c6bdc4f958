"""The HTTP server of `sparkscale serve`: `GET /metrics`, and nothing that changes anything."""

import contextlib
import hmac
import io
import ipaddress
import socket
import socketserver
import threading
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from dagster_sparkscale.driver.bounded_reader import BoundedReader
from dagster_sparkscale.driver.metrics.exposition import Sample
from dagster_sparkscale.serve.fleet import Busy

MAX_HEAD = 16 * 1024
"""Bytes of a request, at most."""
REQUEST_WITHIN = 5.0
"""Seconds from the connection to the end of its request."""
ANSWER_WITHIN = 15.0
"""Seconds for each piece of the answer to go out."""
MAX_CONNECTIONS = 32
"""Connections at most; one more is closed at once."""
SHORTEST_TOKEN = 16
"""Characters."""


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

    """

    daemon_threads = True
    block_on_close = False

    def __init__(
        self,
        address: tuple[str, int],
        samples: Callable[[], Iterable[Sample]],
        *,
        token_file: Path | None = None,
        prefix: str = "",
    ) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        self.samples, self.token_file, self.prefix = samples, token_file, prefix
        self._room = threading.BoundedSemaphore(MAX_CONNECTIONS)
        super().__init__(address, Handler)

    def server_bind(self) -> None:
        # Not HTTPServer's, which looks its own name up: that may take long, and is of no use.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._room.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke is no news."""


class Handler(BaseHTTPRequestHandler):
    """One connection, which ends with the answer to its first request."""

    server_version, sys_version = "sparkscale", ""
    server: Server

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(BoundedReader(self.connection, REQUEST_WITHIN, MAX_HEAD))

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == f"{self.server.prefix}/-/healthy":
            self._send(200, b"alive\n")
        elif not self._may_read():
            return
        elif path == f"{self.server.prefix}/metrics":
            self._send_metrics()
        else:
            self._send(404, f"there is {self.server.prefix}/metrics here\n".encode())

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
            wanted = f"Bearer {read_token_file(self.server.token_file)}"
        except ValueError:
            self._send(503, b"the token file can't be read\n")
            return False
        given = self.headers.get("Authorization", "")
        if hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode()):
            return True
        self._send(401, b"Authorization: must be the bearer token\n")
        return False

    def _send_metrics(self) -> None:
        from prometheus_client.exposition import choose_encoder

        try:
            samples = self.server.samples()
        except Busy as error:
            self._send(503, f"{error}\n".encode())
            return
        encode, kind = choose_encoder(self.headers.get("Accept", ""))
        self._send(200, encode(_Collected(samples)), kind)

    def _send(self, code: int, content: bytes, kind: str = "text/plain; charset=utf-8") -> None:
        with contextlib.suppress(OSError):
            self.connection.settimeout(ANSWER_WITHIN)
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged: there is one every few seconds."""


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
            families[metric.name].add_sample(metric.name + each.suffix, each.labels, each.value)
        yield from families.values()
