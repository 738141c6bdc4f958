"""The plainest reader there is, to see what is in a stream."""

import time
from typing import Any

from tests.sources.kinesis.stream import Stream
from tests.waiting import wait_for


def read_shard(client: Any, name: str, shard: str, limit: int = 10_000) -> list[dict[str, Any]]:
    """The records of a shard from its oldest to the end, or to its tip if it is open."""
    records: list[dict[str, Any]] = []
    iterator = client.get_shard_iterator(
        StreamName=name, ShardId=shard, ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    while iterator:
        answer = client.get_records(ShardIterator=iterator, Limit=limit)
        records += answer["Records"]
        iterator = answer.get("NextShardIterator")
        if not answer["Records"] and answer["MillisBehindLatest"] == 0:
            break
    return records


def read_stream(stream: Stream, client: Any = None) -> list[dict[str, Any]]:
    """The records of all shards, parents before their children (whose ids are higher)."""
    client = client or stream.client
    return [r for shard in stream.shards() for r in read_shard(client, stream.name, shard.id)]


def wait_until_past(stream: Stream, seconds: float = 0.0) -> None:
    """Wait until all that a stream has arrived so many seconds ago, by the service's clock as one
    that asks it knows it: it tells whole seconds, and may have told the last one."""
    newest = max(record["ApproximateArrivalTimestamp"] for record in read_stream(stream))
    wait_for("the records to be past", lambda: time.time() > newest.timestamp() + seconds + 1)
