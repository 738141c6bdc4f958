"""The calls to Kinesis: one client, its retries, its limits, and a parser that keeps up.

boto3 takes most of its time for a page of records in its response parser, which looks at every
field of every record. Its own hook `before-parse` lets the records past it: they stay as the
service wrote them, `Data` in base64 and the arrival time in seconds.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import lru_cache, partial
from typing import Any

from .client import KinesisError, UnknownSequence, open_client, open_session
from .options import Connection
from .positions import Kind, Position
from .quota import Quota, Unlimited
from .shards import Shard

log = logging.getLogger(__name__)

Record = dict[str, Any]
"""A record in the service's JSON: SequenceNumber, ApproximateArrivalTimestamp (seconds),
PartitionKey and Data (base64)."""

CLOCK_SAMPLES = 50
"""Answers that tell the service's time: few enough that a clock that drifts does no harm."""
_EXPECTED = {
    "list_shards": "Shards",
    "describe_stream_summary": "StreamDescriptionSummary",
    "get_shard_iterator": "ShardIterator",
    "get_records": "Records",
}
_NO_RECORD = {"InvalidArgumentException", "ResourceNotFoundException"}
"""What the service, or an emulator, says of a sequence number that is not of the shard."""
THREADS = 16
"""Shards that planning asks about at a time."""
BROKEN_ANSWERS = 5
"""How often the same question is asked while the answers cannot be read."""


class ExpiredIterator(Exception):
    """An iterator lives for five minutes: get another."""


@dataclass(frozen=True, slots=True)
class Page:
    """An answer to GetRecords."""

    records: list[Record]
    next: str | None
    """The iterator of the next page; None at the end of a closed shard."""
    behind_ms: int
    """MillisBehindLatest: 0 at the tip."""


def arrived_ms(record: Record) -> int:
    """When the service took the record in, milliseconds since the epoch."""
    seconds: float = record["ApproximateArrivalTimestamp"]
    return round(seconds * 1000)


class Service:
    """One stream of one account. Safe for threads.

    Args:
        connections: kept open at a time.
    """

    def __init__(self, connection: Connection, connections: int = 10) -> None:
        self.connection = connection
        session = open_session(connection)
        self._client = open_client(session, connection, connections, connection.max_retries)
        # What there is another way to find out is not waited for long.
        self._hasty = open_client(session, connection, connections, min(1, connection.max_retries))
        self._quota = Quota() if connection.limited else Unlimited()
        self._clock_ahead: deque[float] = deque(maxlen=CLOCK_SAMPLES)
        """Seconds by which the service's clock is ahead of this process's monotonic one."""
        for client in (self._client, self._hasty):
            client.meta.events.register("before-parse.kinesis.GetRecords", _past_the_parser)
            client.meta.events.register("before-parse.kinesis.*", self._note_time)

    def shards(self) -> list[Shard]:
        """All shards that are listed, closed ones that still have data among them."""
        found: list[Shard] = []
        request: dict[str, Any] = {"StreamName": self.connection.stream}
        while True:
            answer = self._call("list_shards", request)
            found += [_shard(each) for each in answer["Shards"]]
            if not answer.get("NextToken"):
                return found
            request = {"NextToken": answer["NextToken"]}

    def retention_ms(self) -> int:
        """How long the stream keeps a record."""
        answer = self._call("describe_stream_summary", {"StreamName": self.connection.stream})
        hours: float = answer["StreamDescriptionSummary"]["RetentionPeriodHours"]
        return round(hours * 3_600_000)

    def iterator(self, shard: str, position: Position, hasty: bool = False) -> str:
        """An iterator by which GetRecords reads from `position`.

        Args:
            hasty: give up after one more try.

        Raises:
            UnknownSequence: the shard lacks the record of `position`.
            KinesisError: it did not work, and trying again did not help.
        """
        request: dict[str, Any] = {"StreamName": self.connection.stream, "ShardId": shard}
        match position.kind:
            case Kind.TRIM:
                request["ShardIteratorType"] = "TRIM_HORIZON"
            case Kind.TIME:
                request["ShardIteratorType"] = "AT_TIMESTAMP"
                # The service refuses the future; its clock is known to the second.
                request["Timestamp"] = min(position.time_ms or 0, self.now_ms()) / 1000
            case Kind.AT | Kind.AFTER:
                request["ShardIteratorType"] = f"{position.kind}_SEQUENCE_NUMBER"
                request["StartingSequenceNumber"] = position.sequence
            case Kind.END:
                raise ValueError(f"{shard} has been read to its end")
        client = self._hasty if hasty else self._client
        answer: str = self._call("get_shard_iterator", request, client)["ShardIterator"]
        return answer

    def records(self, shard: str, iterator: str, limit: int) -> Page:
        """
        Args:
            limit: records, 1 to 10,000.

        Raises:
            ExpiredIterator: get another, and ask again.
            KinesisError: it did not work, and trying again did not help.
        """
        self._quota.before_read(shard)
        answer = self._call("get_records", {"ShardIterator": iterator, "Limit": limit})
        self._quota.after_read(shard, answer.pop("BodySize", 0))
        return Page(
            answer["Records"],
            answer.get("NextShardIterator"),
            answer.get("MillisBehindLatest") or 0,
        )

    def now_ms(self) -> int:
        """The service's clock, never ahead of it: its answers name the second they were given."""
        if not self._clock_ahead:
            self.shards()
        # A second that has just begun tells more than one that is nearly over.
        return int((time.monotonic() + max(self._clock_ahead)) * 1000)

    def _note_time(self, response_dict: Mapping[str, Any], **_: Any) -> None:
        date = response_dict["headers"].get("Date")
        # The service always tells; else this machine's clock has to do.
        now = parsedate_to_datetime(date).timestamp() if date else time.time()
        self._clock_ahead.append(now - time.monotonic())

    def _call(
        self, operation: str, request: Mapping[str, Any], client: Any = None
    ) -> dict[str, Any]:
        """
        Raises:
            ExpiredIterator: of an iterator.
            UnknownSequence: of a sequence number to begin at.
            KinesisError: anything else, after boto3's own retries.
        """
        from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError
        from botocore.parsers import ResponseParserError

        call: Callable[..., dict[str, Any]] = getattr(client or self._client, operation)
        broken = ""
        for attempt in range(BROKEN_ANSWERS):
            time.sleep(0.2 * attempt)
            try:
                answer = call(**request)
                # An answer that was cut short is no error to boto3: it is just an empty one.
                if _EXPECTED[operation] in answer:
                    return answer
                broken = f"an answer without {_EXPECTED[operation]}"
            except ClientError as error:
                code = error.response["Error"]["Code"]
                if error.operation_name == "AssumeRole":
                    code = "AssumeRole"
                if code == "ExpiredIteratorException":
                    raise ExpiredIterator from None
                refusal = self._refusal(operation, code, error)
                if code in _NO_RECORD and "StartingSequenceNumber" in request:
                    raise UnknownSequence(refusal) from None
                raise KinesisError(refusal) from None
            except ResponseParserError as error:
                broken = str(error)
            except NoCredentialsError:
                raise KinesisError(
                    f"{operation}: no AWS credentials: give the option roleArn, awsProfile "
                    "or awsAccessKeyId, or what boto3 finds by itself (environment, instance role)"
                ) from None
            except BotoCoreError as error:
                raise KinesisError(
                    f"{operation}: {self._where()} cannot be reached: {error}"
                ) from None
        raise KinesisError(f"{operation}: {self._where()} does not answer as Kinesis: {broken}")

    def _refusal(self, operation: str, code: str, error: Exception) -> str:
        stream = self.connection.stream
        said = f"{operation} of {stream}: {error}"
        hints = {
            "ResourceNotFoundException": (
                f"there is no stream {stream!r}, or no such shard in it, at {self._where()}: "
                "see the options streamName, region and endpointUrl; if it was deleted and made "
                "again under its old name, start from a new checkpoint location"
            ),
            "AccessDeniedException": (
                "the credentials need kinesis:ListShards, DescribeStreamSummary, "
                "GetShardIterator and GetRecords on the stream"
            ),
            "AssumeRole": (
                "the role of the option roleArn cannot be assumed: see its trust policy, what the "
                "credentials may do, and the options externalId and stsEndpointUrl"
            ),
            "UnrecognizedClientException": "the credentials are not valid",
            "ExpiredTokenException": "the session token has expired: use a role instead",
            "InvalidArgumentException": (
                "a sequence number that is not of this stream: was the stream deleted and made "
                "again under its old name? Then start from a new checkpoint location"
            ),
        }
        return f"{said}\n{hints[code]}" if code in hints else said

    def _where(self) -> str:
        return str(self._client.meta.endpoint_url)


service_for = lru_cache(8)(partial(Service, connections=THREADS))
"""The one client for a process and a connection: Python workers are kept for many tasks, and a
client has connections, a limiter and credentials that are worth keeping too."""


def _shard(listed: Mapping[str, Any]) -> Shard:
    parents = (listed.get("ParentShardId"), listed.get("AdjacentParentShardId"))
    return Shard(
        listed["ShardId"],
        tuple(parent for parent in parents if parent),
        "EndingSequenceNumber" in listed["SequenceNumberRange"],
        listed["SequenceNumberRange"].get("StartingSequenceNumber"),
    )


def _past_the_parser(
    response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any
) -> None:
    import orjson

    if response_dict["status_code"] != 200:
        return
    body = response_dict["body"]
    try:
        answer = orjson.loads(body)
    except ValueError:
        return  # boto3's own parser says what is wrong with it
    if isinstance(answer, dict) and "Records" in answer:
        # Mostly base64, which takes four bytes for three.
        customized_response_dict.update(answer, BodySize=len(body) * 3 // 4)
        response_dict["body"] = b"{}"
