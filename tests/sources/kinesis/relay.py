"""The HTTP side of FaultProxy: what it does with one request after the other."""

import contextlib
import http.client
import json
import select
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from tests.sources.kinesis.faults import Answer, Call, code_of, error_answer, size_of

if TYPE_CHECKING:
    from tests.sources.kinesis.proxy import FaultProxy

_IDLE_SECONDS = 1.0
"""How long a connection to the emulator may be unused: it closes idle ones after 5 s and more."""


class Server(ThreadingHTTPServer):
    """A thread for every connection of a client."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, proxy: "FaultProxy") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.proxy = proxy

    def handleerror_answer(self, request: Any, client_address: Any) -> None:
        pass  # a client or the emulator is gone: both sides see it in their own way


class _Handler(BaseHTTPRequestHandler):
    """One connection of a client, with one of its own to the emulator."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: Server

    def setup(self) -> None:
        super().setup()
        self._proxy = self.server.proxy
        self._proxy.track(self.connection)
        self._upstream: http.client.HTTPConnection | None = None
        self._used = 0.0

    def finish(self) -> None:
        self._proxy.untrack(self.connection)
        self._hang_up()
        with contextlib.suppress(OSError):
            super().finish()

    def do_POST(self) -> None:
        at = time.monotonic()
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        operation = self.headers.get("X-Amz-Target", "").rpartition(".")[2]
        request = json.loads(body or b"{}")
        self._proxy.signed(self.headers.get("Authorization", ""))
        shard = self._proxy.shard_of(request)
        rule = self._proxy.rule_for(operation, shard)
        kind = rule.kind if rule else None
        if rule and rule.kind == "answer":
            self._proxy.note(Call(at, operation, shard, rule.code))
            self._send(error_answer(rule.status, rule.code))
            return
        if kind in ("drop", "hang"):
            self._proxy.note(Call(at, operation, shard, str(kind)))
            if kind == "hang":
                self._wait_for_the_end()
            self.close_connection = True
            return
        if rule and rule.kind == "slow":
            self._proxy.closing.wait(rule.seconds)
        if refusal := self._proxy.refusal(operation, shard):
            self._proxy.note(Call(at, operation, shard, refusal[0]))
            self._send(error_answer(400, refusal[1]))
            return
        try:
            answer, records, onward = self._proxy.seen(operation, shard, self._forward(body))
            while onward:
                request["ShardIterator"] = onward
                answer = self._forward(json.dumps(request).encode())
                answer, records, onward = self._proxy.seen(operation, shard, answer)
        except (OSError, http.client.HTTPException) as error:
            self._proxy.note(Call(at, operation, shard, type(error).__name__))
            self.close_connection = True
            return
        if kind == "cut":
            self._proxy.note(Call(at, operation, shard, "cut"))
            self._send(answer, cut=True)
            return
        outcome = "ok" if answer.status == 200 else code_of(answer)
        # Before it is sent: who has the answer may look at the count.
        self._proxy.note(Call(at, operation, shard, outcome, len(records), size_of(records)))
        self._send(answer)

    def _forward(self, body: bytes) -> Answer:
        if time.monotonic() - self._used > _IDLE_SECONDS:
            self._hang_up()
        if self._upstream is None:
            self._upstream = self._proxy.connect()
        passed_on = {
            name: value
            for name, value in self.headers.items()
            if name.lower() not in ("connection", "content-length", "accept-encoding", "host")
        }
        try:
            self._upstream.request("POST", self.path, body, passed_on)
            response = self._upstream.getresponse()
            content = response.read()
        except BaseException:
            self._hang_up()
            raise
        self._used = time.monotonic()
        headers = {
            name: value
            for name, value in response.getheaders()
            if name.lower() in ("content-type", "x-amzn-requestid", "x-amzn-errortype")
        }
        if response.will_close:
            self._hang_up()
        return Answer(response.status, headers, content)

    def _hang_up(self) -> None:
        if self._upstream is not None:
            if self._upstream.sock is not None:
                self._proxy.untrack(self._upstream.sock)
            self._upstream.close()
            self._upstream = None

    def _send(self, answer: Answer, cut: bool = False) -> None:
        body = answer.body
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(max(len(body), 1) if cut else len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if cut else body)
        self.close_connection = self.close_connection or cut

    def _wait_for_the_end(self) -> None:
        while not self._proxy.closing.is_set():
            if select.select([self.connection], [], [], 0.05)[0]:
                return  # gone: nobody sends a second request before the first is answered

    def log_message(self, format: str, *args: Any) -> None:
        pass
