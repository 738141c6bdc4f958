"""A proxy in front of a Kinesis emulator: counts what is read, and makes things go wrong.

Rules and settings may change at any time, from any thread. Shards are told apart by their id alone:
a test puts one stream behind a proxy. A shard is known for requests that name it and for iterators
that were handed out through the same proxy.
"""

import contextlib
import http.client
import json
import socket
import threading
import time
from collections import Counter
from typing import Any, Self, cast
from urllib.parse import urlsplit

from tests.sources.kinesis.faults import Allowance, Answer, Call, Rule, size_of
from tests.sources.kinesis.relay import Server

ITERATORS = 50_000
"""How many iterators are remembered; real ones are valid for five minutes."""


class FaultProxy:
    """Forwards Kinesis calls to `upstream_url`. Use as a context manager."""

    def __init__(self, upstream_url: str) -> None:
        address = urlsplit(upstream_url)
        self._upstream = (address.hostname or "127.0.0.1", address.port or 80)
        self.limits = False
        """Whether the real service's limits per shard are enforced."""
        self.access_keys: Counter[str] = Counter()
        """How many calls were signed with each access key."""
        self._lock = threading.Lock()
        self._calls: list[Call] = []
        self._rules: list[Rule] = []
        self._iterators: dict[str, str] = {}
        self._allowances: dict[str, Allowance] = {}
        self._trimmed: dict[str, int] = {}
        self._expired: set[str] = set()
        self._behind: dict[str, int] = {}
        self._retention: float | None = None
        self._sockets: set[socket.socket] = set()
        self.closing = threading.Event()
        self._server = Server(self)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop, and leave every client that is still waiting without an answer."""
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        with self._lock:
            for open_socket in self._sockets:
                with contextlib.suppress(OSError):
                    open_socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    # What has been seen.

    def log(self, operation: str | None = None, shard: str | None = None) -> list[Call]:
        """The calls so far, in the order in which they were answered."""
        with self._lock:
            return [
                call
                for call in self._calls
                if operation in (None, call.operation) and shard in (None, call.shard)
            ]

    def calls(self, operation: str | None = None, shard: str | None = None) -> int:
        return len(self.log(operation, shard))

    def times(self, operation: str, shard: str | None = None) -> list[float]:
        """When calls came in, by time.monotonic(), in order."""
        return sorted(call.at for call in self.log(operation, shard))

    @property
    def records(self) -> Counter[str]:
        """By shard, how many records GetRecords has returned. An aggregated record is one."""
        counted: Counter[str] = Counter()
        for call in self.log("GetRecords"):
            counted[call.shard or ""] += call.records
        return counted

    @property
    def bytes(self) -> Counter[str]:
        """By shard, the bytes of data and partition keys that GetRecords has returned."""
        counted: Counter[str] = Counter()
        for call in self.log("GetRecords"):
            counted[call.shard or ""] += call.bytes
        return counted

    @property
    def throttled(self) -> Counter[str]:
        """By shard, how many calls were over the limits (not those that a rule has failed)."""
        log = self.log("GetRecords")
        return Counter(call.shard or "" for call in log if call.outcome == "throttled")

    # What is to go wrong.

    def fail(
        self,
        operation: str,
        code: str = "",
        *,
        shard: str | None = None,
        times: int = 1,
        status: int = 400,
    ) -> Rule:
        """Answer the next calls with an error, without the emulator seeing them.

        With no `code` that of the status: InternalFailure for 500, ServiceUnavailable for 503.
        """
        code = code or {500: "InternalFailure", 503: "ServiceUnavailable"}.get(status, "")
        if not code:
            raise ValueError(f"code: empty with status {status}; give the error's name")
        return self._add(Rule("answer", operation, shard, times, status, code))

    def drop(self, operation: str, *, shard: str | None = None, times: int = 1) -> Rule:
        """Close the connection without an answer; the emulator does not see the call."""
        return self._add(Rule("drop", operation, shard, times))

    def hang(self, operation: str, *, shard: str | None = None, times: int = 1) -> Rule:
        """Never answer: until the client leaves or the proxy closes."""
        return self._add(Rule("hang", operation, shard, times))

    def cut(self, operation: str, *, shard: str | None = None, times: int = 1) -> Rule:
        """Send half of the emulator's answer, under a Content-Length for all of it, and close."""
        return self._add(Rule("cut", operation, shard, times))

    def slow(
        self, operation: str, seconds: float, *, shard: str | None = None, times: int = 1
    ) -> Rule:
        """Hold the call back for `seconds` before it is forwarded."""
        return self._add(Rule("slow", operation, shard, times, seconds=seconds))

    def heal(self) -> None:
        """Forget all rules. Calls that hang already go on hanging."""
        with self._lock:
            self._rules.clear()

    def trim(self, shard: str, before_sequence_number: str | int) -> None:
        """Leave out older records of a shard from now on, as after the retention period."""
        with self._lock:
            self._trimmed[shard] = int(before_sequence_number)

    def expire(self, shard: str) -> None:
        """A closed shard is past its retention: no longer listed, and no iterator for it."""
        with self._lock:
            self._expired.add(shard)

    def retention(self, seconds: float | None) -> None:
        """What RetentionPeriodHours comes to; None: what the emulator says. It trims nothing."""
        with self._lock:
            self._retention = seconds

    def behind_ms(self, shard: str, value: int | None) -> None:
        """What MillisBehindLatest is to be for a shard; None: what the emulator says."""
        with self._lock:
            if value is None:
                self._behind.pop(shard, None)
            else:
                self._behind[shard] = value

    def _add(self, rule: Rule) -> Rule:
        with self._lock:
            self._rules.append(rule)
        return rule

    # What the handler asks.

    def shard_of(self, request: dict[str, Any]) -> str | None:
        if "ShardIterator" in request:
            with self._lock:
                return self._iterators.get(request["ShardIterator"])
        return cast(str | None, request.get("ShardId") or request.get("ShardToSplit"))

    def signed(self, authorization: str) -> None:
        """A call came with this header: `AWS4-HMAC-SHA256 Credential=<access key>/<date>/...`."""
        with self._lock:
            self.access_keys[authorization.partition("Credential=")[2].partition("/")[0]] += 1

    def rule_for(self, operation: str, shard: str | None) -> Rule | None:
        """The first rule that fits, with one call less to go."""
        with self._lock:
            for rule in self._rules:
                if rule.fits(operation, shard):
                    rule.left -= 1
                    return rule
        return None

    def refusal(self, operation: str, shard: str | None) -> tuple[str, str] | None:
        """Outcome and error code for a call that the real service would refuse."""
        with self._lock:
            if operation == "GetShardIterator" and shard in self._expired:
                return "ResourceNotFoundException", "ResourceNotFoundException"
            if operation == "GetRecords" and shard is not None and self.limits:
                now = time.monotonic()
                allowance = self._allowances.setdefault(shard, Allowance(now))
                if not allowance.grant(now):
                    return "throttled", "ProvisionedThroughputExceededException"
        return None

    def seen(
        self, operation: str, shard: str | None, answer: Answer
    ) -> tuple[Answer, list[dict[str, Any]], str | None]:
        """An answer as the client is to see it, and the records in it.

        Third, an iterator if all records of the answer have been trimmed: the real service would
        have gone on to those that are left, and never say that a reader is at the tip.
        """
        if answer.status != 200 or operation not in (
            "GetRecords",
            "GetShardIterator",
            "ListShards",
            "DescribeStream",
            "DescribeStreamSummary",
        ):
            return answer, [], None
        content = json.loads(answer.body)
        with self._lock:
            iterator = content.get("NextShardIterator") or content.get("ShardIterator")
            if iterator and shard is not None:
                self._remember(iterator, shard)
            came = len(content.get("Records", []))
            changed = self._edit(shard, content)
            records = content.get("Records", [])
            if came and not records and content.get("NextShardIterator"):
                return answer, [], content["NextShardIterator"]
            if self.limits and shard in self._allowances:
                self._allowances[shard].take(size_of(records))
        if changed:
            answer = Answer(answer.status, answer.headers, json.dumps(content).encode())
        return answer, records, None

    def _remember(self, iterator: str, shard: str) -> None:
        self._iterators[iterator] = shard
        if len(self._iterators) > ITERATORS:
            del self._iterators[next(iter(self._iterators))]

    def _edit(self, shard: str | None, content: dict[str, Any]) -> bool:
        changed = False
        if "Records" in content and shard in self._trimmed:
            oldest = self._trimmed[shard]
            records = content["Records"]
            content["Records"] = [r for r in records if int(r["SequenceNumber"]) >= oldest]
            changed = True
        if "MillisBehindLatest" in content and shard in self._behind:
            content["MillisBehindLatest"] = self._behind[shard]
            changed = True
        if "StreamDescriptionSummary" in content and self._retention is not None:
            summary = content["StreamDescriptionSummary"]
            # The service knows whole hours only.
            summary["RetentionPeriodHours"] = self._retention / 3600
            changed = True
        described = content.get("StreamDescription", content)
        if "Shards" in described and self._expired:
            shards = described["Shards"]
            described["Shards"] = [s for s in shards if s["ShardId"] not in self._expired]
            changed = True
        return changed

    def note(self, call: Call) -> None:
        with self._lock:
            self._calls.append(call)

    def connect(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection(*self._upstream)
        connection.connect()
        self.track(connection.sock)
        return connection

    def track(self, open_socket: socket.socket) -> None:
        """Have `close` end what waits for this socket."""
        with self._lock:
            self._sockets.add(open_socket)
        if self.closing.is_set():
            with contextlib.suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)

    def untrack(self, closed: socket.socket) -> None:
        with self._lock:
            self._sockets.discard(closed)
