"""A server that takes alerts, or does not."""

import json
import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = "T0/hunter2"


class Server(ThreadingHTTPServer):
    """Answers what it is told to, and keeps what it was sent."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        self.got: list[dict] = []
        self.headers: list[dict] = []
        self.paths: list[str] = []
        self.answers: list[int] = []
        """The next ones; then 200."""
        self.location = ""
        self.malformed = b""
        """A line among the headers of its answers."""
        self.hangs = threading.Event()
        self.hangs.set()
        super().__init__(("127.0.0.1", port), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/services/{SECRET}?key=hunter2"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.hangs.wait(60)
        code = self.server.answers.pop(0) if self.server.answers else 200
        if code == 200:
            self.server.got.append(json.loads(body))
            self.server.headers.append(dict(self.headers))
            self.server.paths.append(self.path)
        self.send_response(code)
        if self.server.location:
            self.send_header("Location", self.server.location)
        if self.server.malformed:
            self.flush_headers()
            self.wfile.write(self.server.malformed + b"\r\n")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def serving(port: int = 0):
    server = Server(port)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.hangs.set()
        server.shutdown()
        server.server_close()
        thread.join()


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]
