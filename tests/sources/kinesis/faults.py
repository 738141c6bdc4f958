"""What FaultProxy counts, answers and allows: the parts that need no network."""

import contextlib
import json
from dataclasses import dataclass
from typing import Any, Literal

MIB = 1024 * 1024

Kind = Literal["answer", "drop", "hang", "cut", "slow"]


class Allowance:
    """What the real service grants the readers of one shard: 5 GetRecords and 2 MiB a second.

    "If a call to GetRecords returns 10 MiB, subsequent calls made within the next 5 seconds throw
    an exception" (Kinesis API reference, GetRecords). Both are token buckets that hold one second's
    worth; an answer larger than that leaves nothing of it.
    """

    CALLS = 5.0
    BYTES = 2.0 * MIB

    def __init__(self, now: float) -> None:
        self._calls = self.CALLS
        self._bytes = self.BYTES
        self._at = now

    def grant(self, now: float) -> bool:
        """Whether a call at `now` (seconds of any clock) is within the limits."""
        passed, self._at = max(0.0, now - self._at), max(now, self._at)
        self._calls = min(self.CALLS, self._calls + passed * self.CALLS)
        self._bytes = min(self.BYTES, self._bytes + passed * self.BYTES)
        # Rounding must not refuse the caller who comes just in time.
        if self._calls < 1.0 - 1e-6 or self._bytes < -1.0:
            return False
        self._calls -= 1.0
        return True

    def take(self, size: int) -> None:
        """A granted call was answered with `size` bytes."""
        self._bytes -= size
        if size > self.BYTES:
            self._bytes = min(self._bytes, -float(size))


@dataclass(frozen=True)
class Call:
    """One request and what became of it."""

    at: float
    """time.monotonic() when it came in."""
    operation: str
    shard: str | None
    outcome: str
    """"ok", the error's code, "throttled", or what a rule did: "drop", "hang", "cut"."""
    records: int = 0
    bytes: int = 0


@dataclass
class Rule:
    """What is to happen to the next calls that fit."""

    kind: Kind
    operation: str
    shard: str | None
    left: int
    """How many calls it is still for; 0 ends it."""
    status: int = 400
    code: str = ""
    seconds: float = 0.0

    def fits(self, operation: str, shard: str | None) -> bool:
        return self.left > 0 and operation == self.operation and self.shard in (None, shard)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


def size_of(records: list[dict[str, Any]]) -> int:
    """Bytes of data and partition keys, as the service counts them."""
    size = 0
    for record in records:
        data = record["Data"]  # base64
        size += len(data) // 4 * 3 - data[-2:].count("=") + len(record["PartitionKey"].encode())
    return size


def error_answer(status: int, code: str) -> Answer:
    """As the service words it."""
    content = {"__type": code, "message": f"{code} on behalf of a test"}
    headers = {"Content-Type": "application/x-amz-json-1.1", "x-amzn-ErrorType": code}
    return Answer(status, headers, json.dumps(content).encode())


def code_of(answer: Answer) -> str:
    """The code of an error, its status if it has none."""
    with contextlib.suppress(ValueError, AttributeError):
        return str(json.loads(answer.body).get("__type", answer.status)).rpartition("#")[2]
    return str(answer.status)
