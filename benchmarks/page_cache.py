"""`python -m benchmarks.page_cache URL`: repeats what a Kinesis emulator has answered before.

An emulator takes far longer to make a page of records than any client takes to read it; with the
pages kept here, what is measured is the client. A process of its own, so that it does not share
the interpreter with who is measured. Prints its own address.
"""

import http.client
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

Answer = tuple[int, str, bytes]


class Cache(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, upstream: str) -> None:
        address = urlsplit(upstream)
        self.upstream = (address.hostname or "", address.port or 80)
        self.answers: dict[tuple[str, bytes], Answer] = {}
        super().__init__(("127.0.0.1", 0), Handler)

    def handle_error(self, *_: object) -> None:
        """Whoever is measured may leave when it likes."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: Cache

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        key = (self.headers["X-Amz-Target"], body)
        answer = self.server.answers.get(key)
        if answer is None:
            answer = self._ask(body)
            if answer[0] == 200 and _lasting(*key):
                self.server.answers[key] = answer
        status, kind, content = answer
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _ask(self, body: bytes) -> Answer:
        connection = http.client.HTTPConnection(*self.server.upstream)
        headers = {name: value for name, value in self.headers.items() if name != "Host"}
        connection.request("POST", "/", body, headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, answer.headers["Content-Type"], content

    def log_message(self, *_: object) -> None:
        pass


def _lasting(target: str, body: bytes) -> bool:
    """Whether the same question has the same answer later; the stream must be full by then."""
    operation = target.rpartition(".")[2]
    if operation == "GetShardIterator":
        return bool(json.loads(body)["ShardIteratorType"] != "LATEST")
    return operation == "GetRecords"


if __name__ == "__main__":
    with Cache(sys.argv[1]) as server:
        print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
        server.serve_forever()
