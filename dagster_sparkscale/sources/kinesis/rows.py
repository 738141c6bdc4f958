"""Records of the service to rows of Spark, by Arrow."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from .service import Record

SCHEMA = (
    "data binary, partitionKey string, sequenceNumber string, subSequenceNumber bigint, "
    "approximateArrivalTimestamp timestamp, shardId string, streamName string"
)
"""The schema of the rows, in Spark's DDL. subSequenceNumber is the place within a record of the
Kinesis Producer Library that held several, and null for one that was put by itself."""

_MAGIC = b"\xf3\x89\x9a\xc2"
"""What an aggregated record begins with."""
_MAGIC_BASE64 = "84maw"


@lru_cache(1)
def _schema() -> Any:
    import pyarrow as pa

    return pa.schema(
        [
            ("data", pa.binary()),
            ("partitionKey", pa.string()),
            ("sequenceNumber", pa.string()),
            ("subSequenceNumber", pa.int64()),
            ("approximateArrivalTimestamp", pa.timestamp("us", tz="UTC")),
            ("shardId", pa.string()),
            ("streamName", pa.string()),
        ]
    )


def to_arrow(records: list[Record], shard: str, stream: str, deaggregate: bool) -> Any:
    """A pyarrow.RecordBatch of `SCHEMA`.

    Args:
        deaggregate: split records that the Kinesis Producer Library has put together.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    places: Any = None
    data = _decoded(records)
    if deaggregate and pc.any(pc.starts_with(data, pattern=_MAGIC)).as_py():
        records, numbers = _split(records)
        data, places = _decoded(records), pa.array(numbers, pa.int64())
    count = len(records)
    seconds = pa.array([record["ApproximateArrivalTimestamp"] for record in records], pa.float64())
    return pa.RecordBatch.from_arrays(
        [
            data,
            pa.array([record["PartitionKey"] for record in records], pa.string()),
            pa.array([record["SequenceNumber"] for record in records], pa.string()),
            pa.nulls(count, pa.int64()) if places is None else places,
            pc.round(pc.multiply(seconds, 1e6)).cast(pa.int64()).cast(pa.timestamp("us", tz="UTC")),
            pa.repeat(shard, count),
            pa.repeat(stream, count),
        ],
        schema=_schema(),
    )


def _decoded(records: list[Record]) -> Any:
    import pyarrow as pa
    from pybase64 import b64decode

    return pa.array([b64decode(record["Data"]) for record in records], pa.binary())


def split_aggregated(records: list[Record]) -> tuple[list[Record], list[int | None]]:
    """The user's records, and of each its place in the record it came in; None where that held
    it alone."""
    if any(record["Data"].startswith(_MAGIC_BASE64) for record in records):
        return _split(records)
    return records, [None] * len(records)


def _split(records: Iterable[Record]) -> tuple[list[Record], list[int | None]]:
    from aws_kinesis_agg.deaggregator import iter_deaggregate_records

    found: list[Record] = []
    places: list[int | None] = []
    for record in records:
        if not record["Data"].startswith(_MAGIC_BASE64):
            found.append(record)
            places.append(None)
            continue
        envelope = {
            "kinesis": {
                "kinesisSchemaVersion": "1.0",
                "sequenceNumber": record["SequenceNumber"],
                "approximateArrivalTimestamp": record["ApproximateArrivalTimestamp"],
                "partitionKey": record["PartitionKey"],
                "data": record["Data"],
            }
        }
        for part in iter_deaggregate_records([envelope]):
            one = part["kinesis"]
            data = one["data"]
            found.append(
                {
                    "Data": data.decode() if isinstance(data, bytes) else data,
                    "PartitionKey": one["partitionKey"],
                    "SequenceNumber": record["SequenceNumber"],
                    "ApproximateArrivalTimestamp": record["ApproximateArrivalTimestamp"],
                }
            )
            # One that only looks aggregated comes back as it was.
            places.append(one.get("subSequenceNumber"))
    return found, places
