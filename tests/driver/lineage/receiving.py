"""An OpenLineage server of a test, which checks what it is sent against OpenLineage's schema."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

SCHEMA = Path(__file__).parent / "schema"


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


_EVENT = _read(SCHEMA / "OpenLineage.json")
_FACETS = {path.stem: _read(path) for path in (SCHEMA / "facets").glob("*.json")}
_KNOWN = Registry().with_resources(
    (each["$id"], Resource.from_contents(each)) for each in (_EVENT, *_FACETS.values())
)


def check(event: dict[str, Any]) -> None:
    """Raise unless this is a run event by OpenLineage's schema, and its facets by theirs."""
    of_run = {"$ref": f"{_EVENT['$id']}#/$defs/RunEvent"}
    Draft202012Validator(of_run, registry=_KNOWN, format_checker=_FORMATS).validate(event)
    for facet in (*event["run"]["facets"].values(), *event["job"]["facets"].values()):
        schema, name = {"$ref": facet["_schemaURL"]}, facet["_schemaURL"].rpartition("/")[2]
        assert name in _FACETS, f"{name}: no schema of it in {SCHEMA}"
        Draft202012Validator(schema, registry=_KNOWN, format_checker=_FORMATS).validate(facet)


_FORMATS = Draft202012Validator.FORMAT_CHECKER


class LineageServer(ThreadingHTTPServer):
    """Keeps the events that it takes, and answers as it is told to."""

    daemon_threads = True

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.faults: list[str] = []
        self.authorizations: list[str | None] = []
        self.paths: list[str] = []
        self.asked = 0
        self.answer = 201
        self.location: str | None = None
        self.hangs = threading.Event()
        """Cleared, it answers nobody until it is set."""
        self.hangs.set()
        self.drips = False
        """Whether it answers byte by byte, until `hangs` is set: for longer than anybody waits."""
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def kinds(self, run: str | None = None) -> list[str]:
        """The kinds of the events, of that run or of all."""
        return [e["eventType"] for e in self.events if run in (None, e["run"]["runId"])]


class _Handler(BaseHTTPRequestHandler):
    server: LineageServer

    def do_POST(self) -> None:
        event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked += 1
        if self.server.drips:
            self._drip()
        self.server.hangs.wait(120)
        if self.server.answer < 300:
            try:
                check(event)
            except Exception as error:
                self.server.faults.append(str(error))
            self.server.authorizations.append(self.headers.get("Authorization"))
            self.server.paths.append(self.path)
            self.server.events.append(event)
        self.send_response(self.server.answer)
        if self.server.location is not None:
            self.send_header("Location", self.server.location)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _drip(self) -> None:
        self.wfile.write(b"HTTP/1.1 201 Created\r\nX: ")
        while not self.server.hangs.wait(0.01):
            self.wfile.write(b"y")

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def receiving() -> Iterator[LineageServer]:
    """A server, which fails the test that has sent it what the schema refuses."""
    with LineageServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.hangs.set()
            server.shutdown()
            thread.join()
    assert not server.faults, server.faults
