"""A server that answers as an agent, and in every way that an agent could."""

import json
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from dagster_sparkscale.clusters.agents.agent import RemoteAgent
from dagster_sparkscale.clusters.agents.http import Connections
from tests.waiting import HANGS

TOKEN = "s3cret-token"
STATUS = {
    "api": 1,
    "stream": "clicks",
    "epoch": 3,
    "phase": "running",
    "now": 1.0,
    "started_at": 0.5,
    "spark": {"registered": 2},
    "last_seq": 0,
}


class Agent:
    """A server whose answer a test can set, and which remembers what it was asked."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.code = 200
        self.body: bytes = json.dumps(STATUS).encode()
        self.headers: dict[str, str] = {}
        self.act: Callable[[BaseHTTPRequestHandler], None] | None = None
        self.asked: list[tuple[str, str, dict[str, str], Any]] = []
        self.connections = 0
        agent = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                agent.connections += 1
                super().setup()

            def answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                agent.asked.append((self.command, self.path, dict(self.headers), body))
                if agent.act:
                    agent.act(self)
                    return
                self.send_response(agent.code)
                for key, value in agent.headers.items():
                    self.send_header(key, value)
                self.send_header("Content-Length", str(len(agent.body)))
                self.end_headers()
                self.wfile.write(agent.body)

            do_GET = do_PUT = do_POST = answer

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if tls is not None:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def drips(server: Agent, body: bytes, *, whole: bool, code: int = 200) -> threading.Event:
    """Have it give its answers byte after byte, each of them soon, and all in 20 s at the least.

    Args:
        body: before blanks.
        whole: the head likewise.

    Returns:
        What is set once an answer's last byte is sent.
    """
    sent, body = threading.Event(), body.ljust(400)
    head = f"HTTP/1.1 {code} So\r\nContent-Length: {len(body)}\r\n\r\n".encode()

    def drip(request: BaseHTTPRequestHandler) -> None:
        drops = head + body if whole else body
        request.wfile.write(b"" if whole else head)
        with suppress(OSError):  # nobody listens any more
            for number in range(len(drops)):
                time.sleep(0.05)
                request.wfile.write(drops[number : number + 1])
            sent.set()

    server.act = drip
    return sent


def remote(connections: Connections, url: str) -> RemoteAgent:
    return RemoteAgent("clicks", 3, url, TOKEN, connections)


def ask(connections: Connections, agent: Agent, timeout: float = HANGS) -> Any:
    return remote(connections, agent.url).status(timeout)
