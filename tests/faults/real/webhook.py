"""A webhook that the API server asks before it makes a pod, and that takes its time."""

import base64
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from dev.kubernetes.api import Refused
from dev.kubernetes.running import Cluster
from tests.kubernetes import pod
from tests.waiting import wait_for

_PATH = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


class Webhook:
    """One that admits all pods of a namespace, late; where it does not answer none is made.

    It has the certificate of the API server, and listens at its address.
    """

    def __init__(self, kubernetes: Cluster, space: str) -> None:
        self._api, self._space = kubernetes.api, space
        self._path = f"{_PATH}/{space}"
        self._certificate = kubernetes.api.certificate
        self.seconds = 0.0
        """Until it answers."""
        self.asked = 0
        host = urlsplit(kubernetes.api.server).hostname
        self._server = ThreadingHTTPServer((str(host), 0), self._handler())
        self._server.daemon_threads = True
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(self._certificate, self._certificate.with_suffix(".key"))
        self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._url = f"https://{host}:{self._server.server_port}/"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._api.delete(self._path)
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def takes(self, seconds: float, limit: int) -> None:
        """Have it take so long from now on.

        Args:
            limit: seconds for which the API server waits for it.
        """
        self.seconds = 0.0
        self._api.delete(self._path)
        self._api.create(_PATH, self._configuration(limit))
        asked = self.asked
        wait_for("the API server to ask it", lambda: self._tried() and self.asked > asked)
        self.seconds = seconds

    def _tried(self) -> bool:
        try:
            path = f"/api/v1/namespaces/{self._space}/pods?dryRun=All"
            self._api.create(path, pod("tried", "true"))
        except Refused as refused:
            assert "webhook" in str(refused), refused
        return True

    def _configuration(self, limit: int) -> dict[str, object]:
        bundle = base64.b64encode(self._certificate.read_bytes()).decode()
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["pods"],
        }
        webhook = {
            "name": "slow.example.com",
            "clientConfig": {"url": self._url, "caBundle": bundle},
            "rules": [rule],
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": limit,
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self._space}},
        }
        return {"metadata": {"name": self._space}, "webhooks": [webhook]}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                webhook.asked += 1
                webhook._ended.wait(webhook.seconds)
                answer = {
                    "apiVersion": review["apiVersion"],
                    "kind": review["kind"],
                    "response": {"uid": review["request"]["uid"], "allowed": True},
                }
                content = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                return

        return Handler
