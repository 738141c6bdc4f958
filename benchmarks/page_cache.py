"""`python -m benchmarks.page_cache URL [STREAM ...]`: repeats what an emulator has answered.

An emulator takes far longer to make a page of records than any client takes to read it; with the
pages kept here, what is measured is the client. A process of its own, so that it does not share
the interpreter with who is measured. Prints its own address.

Each STREAM gets no more records, and is read once before the address is printed. From then on it is
known which record a moment means, and so an iterator at a moment is asked for by that record's
number; behind the last one, as LATEST. kinesalite would look through the whole shard for it, a
second for 200,000 records, and not answer at all behind the last one.
"""

import http.client
import json
import sys
import threading
from bisect import bisect_left
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from dev import kinesis as emulators

Answer = tuple[int, str, bytes]
Arrivals = tuple[list[float], list[str]]
"""When each record of a shard arrived, seconds since the epoch, and its sequence number."""


class Cache(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, upstream: str) -> None:
        address = urlsplit(upstream)
        self.upstream = (address.hostname or "", address.port or 80)
        self.answers: dict[tuple[str, bytes], Answer] = {}
        self.arrivals: dict[tuple[str, str], Arrivals] = {}
        """By stream and shard."""
        super().__init__(("127.0.0.1", 0), Handler)

    def handle_error(self, *_: object) -> None:
        """Whoever is measured may leave when it likes."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: Cache

    def do_POST(self) -> None:
        body = _by_number(
            self.rfile.read(int(self.headers["Content-Length"])), self.server.arrivals
        )
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
        headers = {
            name: value
            for name, value in self.headers.items()
            if name not in ("Host", "Content-Length")
        }
        connection.request("POST", "/", body, headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, answer.headers["Content-Type"], content

    def log_message(self, *_: object) -> None:
        pass


def _by_number(body: bytes, arrivals: Mapping[tuple[str, str], Arrivals]) -> bytes:
    """The same question, with the record that a moment means in its place."""
    asked: dict[str, Any] = json.loads(body)
    known = arrivals.get((asked.get("StreamName", ""), asked.get("ShardId", "")))
    if known is None or "Timestamp" not in asked:
        return body
    stamps, sequences = known
    place = bisect_left(stamps, asked.pop("Timestamp"))
    if place == len(stamps):
        asked["ShardIteratorType"] = "LATEST"
    else:
        asked |= {
            "ShardIteratorType": "AT_SEQUENCE_NUMBER",
            "StartingSequenceNumber": sequences[place],
        }
    return json.dumps(asked).encode()


def _arrivals(client: Any, stream: str, shard: str) -> Arrivals:
    iterator = client.get_shard_iterator(
        StreamName=stream, ShardId=shard, ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    stamps: list[float] = []
    sequences: list[str] = []
    while (page := client.get_records(ShardIterator=iterator, Limit=10_000))["Records"]:
        for record in page["Records"]:
            stamps.append(record["ApproximateArrivalTimestamp"].timestamp())
            sequences.append(record["SequenceNumber"])
        iterator = page["NextShardIterator"]
    return stamps, sequences


def _lasting(target: str, body: bytes) -> bool:
    """Whether the same question has the same answer later; the stream must be full by then."""
    operation = target.rpartition(".")[2]
    if operation == "GetShardIterator":
        return bool(json.loads(body)["ShardIteratorType"] != "LATEST")
    return operation == "GetRecords"


if __name__ == "__main__":
    with Cache(sys.argv[1]) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        client = emulators.client(url)
        for stream in sys.argv[2:]:
            for shard in client.list_shards(StreamName=stream)["Shards"]:
                found = _arrivals(client, stream, shard["ShardId"])
                server.arrivals[stream, shard["ShardId"]] = found
        print(url, flush=True)
        serving.join()
