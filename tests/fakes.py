"""Streams, drivers, statuses and batches, of which a test says only what it is about."""

from dataclasses import fields as fields_of
from dataclasses import replace
from typing import Any

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.clusters.base import Driver, DriverState
from dagster_sparkscale.declare.streams import DStream, StructuredStream
from dagster_sparkscale.observe.status import Batch, Query, Spark, Status

QUERY = "counts"


SPARK = {field.name for field in fields_of(Spark)}
"""What a status says of Spark's executors."""


def structured(name: str = "clicks", **fields: Any) -> StructuredStream:
    return StructuredStream(
        **{"program": "jobs/clicks.py", "batch_interval": 10} | fields, name=name
    )


def dstream(name: str = "clicks", **fields: Any) -> DStream:
    return DStream(**{"program": "jobs/clicks.py", "batch_interval": 10} | fields, name=name)


def scaled(name: str = "clicks", **policy: Any) -> StructuredStream:
    """A structured stream with a ratio policy of these fields."""
    return structured(name, autoscale=RatioPolicy(**policy))


def driver(
    state: DriverState = DriverState.RUNNING, epoch: int = 1, stream: str = "clicks", **fields: Any
) -> Driver:
    return Driver(stream, epoch, state, **{"submitted_at": 1000.0} | fields)


def status(**fields: Any) -> Status:
    """A running driver with two executors and one idle query, seen just now."""
    plain = Status(
        stream="clicks",
        epoch=1,
        phase="running",
        now=2000.0,
        started_at=1000.0,
        last_seq=0,
        spark=Spark(age=0.0, registered=2, requested=2),
        queries=(Query(QUERY, active=True),),
        reconfigurations=(),
    )
    return altered(plain, **fields)


def altered(status: Status, **fields: Any) -> Status:
    """`status` with other fields; those of what Spark says of its executors, too."""
    spark = {name: fields.pop(name) for name in SPARK & fields.keys()}
    if "spark_age" in fields:
        spark["age"] = fields.pop("spark_age")
    return replace(status, spark=replace(status.spark, **spark), **fields)


def batch(seconds: float, *, ago: float = 5.0, now: float = 2000.0, **fields: Any) -> Batch:
    """A batch that took `seconds` and completed `ago` seconds before `now`."""
    plain: dict[str, Any] = {"query": QUERY, "records": 100}
    return Batch(completed_at=now - ago, processing_ms=round(seconds * 1000), **plain | fields)
