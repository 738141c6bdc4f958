"""A reverse proxy, as stands before a cluster: it ends TLS, and passes on what is below a path."""

import http.client
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from tests.waiting import HANGS


class Proxy:
    """Passes what is asked below `path` on to `target`, without that path.

    Args:
        tls: what it speaks; None: HTTP without.
    """

    def __init__(self, target: str, path: str, tls: ssl.SSLContext | None) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if not self.path.startswith(f"{path}/"):
                    self._send(404, b"")
                    return
                there = http.client.HTTPConnection(urlsplit(target).netloc, timeout=HANGS)
                passed = {k: v for k, v in self.headers.items() if k not in ("Host", "Connection")}
                there.request(self.command, self.path.removeprefix(path), body, passed)
                answer = there.getresponse()
                self._send(answer.status, answer.read())
                there.close()

            do_GET = do_PUT = do_POST = answer

            def _send(self, code: int, content: bytes) -> None:
                self.send_response(code)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        scheme = "http" if tls is None else "https"
        self._url = f"{scheme}://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> str:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self._url

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
