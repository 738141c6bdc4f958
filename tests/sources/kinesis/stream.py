"""A stream for tests: puts numbered records, remembers them, reshards, and checks what came out.

Give it a client straight to the emulator that does not retry (`attempts=1`): a call that is sent
twice because its answer was lost puts its records twice.
"""

import hashlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dev.kinesis import wait_until_active
from tests.sources.kinesis.delivered import Row, differences, payload
from tests.waiting import HANGS, Deadline

KEYS = tuple(f"key-{number}" for number in range(16))
"""Enough of them that every shard of a small stream gets some."""
CALL_RECORDS = 500
CALL_BYTES = 4_000_000
"""A PutRecords call takes 500 records and 5 MiB."""
_SECONDS = 30.0
_LATER = {
    "LimitExceededException",
    "ProvisionedThroughputExceededException",
    "ResourceInUseException",
    "InternalFailure",
}


class PutFailed(RuntimeError):
    """Records could not be put; says which error the service gave."""


@dataclass(frozen=True)
class Shard:
    id: str
    start: int
    """First and last hash key of its range."""
    end: int
    parents: tuple[str, ...]
    open: bool


@dataclass(frozen=True)
class _Record:
    key: str
    number: int
    data: bytes

    def entry(self) -> dict[str, Any]:
        return {"Data": self.data, "PartitionKey": self.key}


def hash_key(partition_key: str) -> int:
    """Where Kinesis places a partition key: its MD5 as a number."""
    return int(hashlib.md5(partition_key.encode(), usedforsecurity=False).hexdigest(), 16)


class Stream:
    """A stream that exists; every method may be called from any thread."""

    def __init__(self, client: Any, name: str) -> None:
        self.client = client
        self.name = name
        self._numbered: dict[str, int] = {}
        self._taken: dict[str, list[int]] = {}
        self._put_lock = threading.Lock()
        # An aggregated record belongs to the shard that was there when it was put together.
        self._shape_lock = threading.RLock()

    # Putting.

    @property
    def sent(self) -> dict[str, int]:
        """By key, how many records the stream has taken."""
        with self._put_lock:
            return {key: len(numbers) for key, numbers in self._taken.items()}

    @property
    def total(self) -> int:
        return sum(self.sent.values())

    def put(self, count: int, keys: Sequence[str] = KEYS, size: int = 0) -> None:
        """Put the next `count` records, the keys by turns, each of at least `size` bytes.

        Raises:
            PutFailed: the service would not take one of them.
        """
        with self._put_lock:
            for records in _calls(self._next(count, keys, size)):
                self._put_call(records)

    def put_aggregated(
        self, count: int, keys: Sequence[str] = KEYS, size: int = 0, each: int = 50
    ) -> int:
        """Put the next `count` records in KPL format, about `each` in one Kinesis record.

        As the KPL does, only records of one shard are put together. Returns how many Kinesis
        records they became.
        """
        from aws_kinesis_agg.aggregator import RecordAggregator

        with self._shape_lock, self._put_lock:
            shards = self.open_shards()
            pending: dict[str, list[_Record]] = {}
            for record in self._next(count, keys, size):
                hashed = hash_key(record.key)
                place = next(shard.id for shard in shards if shard.start <= hashed <= shard.end)
                pending.setdefault(place, []).append(record)
            became = 0
            for records in pending.values():
                for begin in range(0, len(records), each):
                    group = records[begin : begin + each]
                    aggregator = RecordAggregator()
                    for record in group:
                        if aggregator.add_user_record(record.key, record.data) is not None:
                            raise ValueError(f"each: {each} records of {size} bytes are over 1 MiB")
                    # It goes where its first record's key goes, and so do all the others.
                    key, _, data = aggregator.clear_and_get().get_contents()
                    self._put_one({"Data": data, "PartitionKey": key})
                    self._take(group)
                    became += 1
            return became

    @contextmanager
    def writing(
        self, rate: float, keys: Sequence[str] = KEYS, size: int = 0, aggregated: bool = False
    ) -> Iterator[None]:
        """Put `rate` records a second in the background, in five calls, until the end of the block.

        Raises:
            PutFailed: at the end of the block, if putting failed meanwhile.
        """
        done = threading.Event()
        failed: list[BaseException] = []
        put = self.put_aggregated if aggregated else self.put

        def write() -> None:
            began, written = time.monotonic(), 0
            try:
                while not done.wait(0.2):
                    due = int((time.monotonic() - began) * rate) - written
                    if due > 0:
                        put(due, keys, size)
                        written += due
            except BaseException as error:
                failed.append(error)

        writer = threading.Thread(target=write, name=f"writer of {self.name}", daemon=True)
        writer.start()
        try:
            yield
        except BaseException as error:
            if failed:
                error.add_note(f"the writer of {self.name} had failed: {failed[0]}")
            raise
        finally:
            done.set()
            writer.join(HANGS)
        if writer.is_alive():
            raise PutFailed(f"{self.name}: the writer does not end")
        if failed:
            raise PutFailed(f"{self.name}: the writer failed: {failed[0]}") from failed[0]

    def _next(self, count: int, keys: Sequence[str], size: int) -> list[_Record]:
        records = []
        turn = sum(self._numbered.values())
        for position in range(turn, turn + count):
            key = keys[position % len(keys)]
            number = self._numbered.get(key, 0)
            self._numbered[key] = number + 1
            records.append(_Record(key, number, payload(key, number, size)))
        return records

    def _put_call(self, records: Sequence[_Record]) -> None:
        entries = [record.entry() for record in records]
        answer = self._retry(
            lambda: self.client.put_records(StreamName=self.name, Records=entries), "Records"
        )
        results = answer["Records"]
        self._take([r for r, a in zip(records, results, strict=True) if "ErrorCode" not in a])
        # One at a time: in another call of many a record could once more overtake an earlier one of
        # its key. Those that have overtaken one in this call were taken first, and so it is noted.
        for record, result in zip(records, results, strict=True):
            if "ErrorCode" in result:
                self._put_one(record.entry())
                self._take([record])

    def _put_one(self, entry: dict[str, Any]) -> None:
        self._retry(lambda: self.client.put_record(StreamName=self.name, **entry), "SequenceNumber")

    def _take(self, records: Iterable[_Record]) -> None:
        for record in records:
            self._taken.setdefault(record.key, []).append(record.number)

    def _retry(self, call: Callable[[], Any], wanted: str) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError

        deadline = Deadline(_SECONDS)
        while True:
            try:
                answer = call()
                # botocore takes an answer that was cut short for one with nothing in it.
                if wanted not in answer:
                    raise PutFailed(f"{self.name}: an answer without {wanted}")
                return answer
            except ClientError as error:
                # Only what certainly has put nothing may be tried again.
                later = error.response["Error"]["Code"] in _LATER
                if not later or deadline.passed():
                    raise PutFailed(f"{self.name}: {error}") from error
            except BotoCoreError as error:
                raise PutFailed(f"{self.name}: {error}") from error
            time.sleep(0.05)

    # Resharding.

    def shards(self) -> list[Shard]:
        """All shards, closed ones too, by their ids."""
        found: list[Shard] = []
        request: dict[str, str] = {"StreamName": self.name}
        while True:
            answer = self.client.list_shards(**request)
            found += [_shard(described) for described in answer["Shards"]]
            if not answer.get("NextToken"):
                return sorted(found, key=lambda shard: shard.id)
            request = {"NextToken": answer["NextToken"]}

    def open_shards(self) -> list[Shard]:
        """The shards that take records, in the order of their hash ranges."""
        return sorted((s for s in self.shards() if s.open), key=lambda shard: shard.start)

    def split(self, shard_id: str) -> tuple[str, str]:
        """Split a shard in the middle of its range; returns its children, the lower first."""
        with self._shape_lock:
            shard = self._open(shard_id)
            middle = (shard.start + shard.end + 1) // 2
            self.client.split_shard(
                StreamName=self.name, ShardToSplit=shard_id, NewStartingHashKey=str(middle)
            )
            lower, upper = self._children(shard_id, 2)
            return lower, upper

    def merge(self, one: str, other: str) -> str:
        """Merge two shards that lie side by side; returns their child."""
        with self._shape_lock:
            left, right = sorted(
                (self._open(one), self._open(other)), key=lambda shard: shard.start
            )
            if left.end + 1 != right.start:
                raise ValueError(f"{one} and {other} do not lie side by side")
            self.client.merge_shards(
                StreamName=self.name, ShardToMerge=left.id, AdjacentShardToMerge=right.id
            )
            return self._children(one, 1)[0]

    def put_around(
        self, count: int, reshard: Callable[[], object], keys: Sequence[str] = KEYS
    ) -> None:
        """Put `count` records, half of them before `reshard` and half of them after it."""
        self.put(count // 2, keys)
        reshard()
        self.put(count - count // 2, keys)

    def _open(self, shard_id: str) -> Shard:
        found = self.open_shards()
        for shard in found:
            if shard.id == shard_id:
                return shard
        ids = ", ".join(shard.id for shard in found)
        raise ValueError(f"shard {shard_id!r} of {self.name} is not open; these are: {ids}")

    def _children(self, parent: str, count: int) -> list[str]:
        deadline = Deadline(_SECONDS)
        while True:
            wait_until_active(self.client, self.name, HANGS)
            children = [shard.id for shard in self.open_shards() if parent in shard.parents]
            if len(children) == count:
                return children
            if deadline.passed():
                raise TimeoutError(f"{parent} of {self.name} has not got {count} children")
            time.sleep(0.02)

    # Checking.

    def assert_complete(self, rows: Iterable[Row], *, in_order: bool = True) -> None:
        """That every record came exactly once, and those of one key in the order they were put."""
        self._assert(differences(self._order(), rows, in_order=in_order))

    def assert_at_least_once(self, rows: Iterable[Row], *, in_order: bool = True) -> None:
        """That every record came; and those of one key, first time each, in order."""
        self._assert(differences(self._order(), rows, duplicates=True, in_order=in_order))

    def _order(self) -> dict[str, list[int]]:
        with self._put_lock:
            return {key: list(numbers) for key, numbers in self._taken.items()}

    def _assert(self, wrong: list[str]) -> None:
        if wrong:
            raise AssertionError(f"{self.name}:\n" + "\n".join(wrong))


def _shard(described: dict[str, Any]) -> Shard:
    parents = (described.get("ParentShardId"), described.get("AdjacentParentShardId"))
    return Shard(
        id=described["ShardId"],
        start=int(described["HashKeyRange"]["StartingHashKey"]),
        end=int(described["HashKeyRange"]["EndingHashKey"]),
        parents=tuple(parent for parent in parents if parent),
        open="EndingSequenceNumber" not in described["SequenceNumberRange"],
    )


def _calls(records: Sequence[_Record]) -> Iterator[Sequence[_Record]]:
    begin, size = 0, 0
    for end, record in enumerate(records):
        added = len(record.data) + len(record.key.encode())
        if end - begin == CALL_RECORDS or (end > begin and size + added > CALL_BYTES):
            yield records[begin:end]
            begin, size = end, 0
        size += added
    if begin < len(records):
        yield records[begin:]
