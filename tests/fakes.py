"""Streams, drivers, statuses and batches, of which a test says only what it is about."""

from typing import Any

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.clusters.base import Driver, DriverState
from dagster_sparkscale.declare.streams import DStream, StructuredStream
from dagster_sparkscale.observe.status import Batch, Query, Status

QUERY = "counts"


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
    plain: dict[str, Any] = {
        "stream": "clicks",
        "epoch": 1,
        "phase": "running",
        "now": 2000.0,
        "started_at": 1000.0,
        "spark_age": 0.0,
        "registered": 2,
        "requested": 2,
        "queries": (Query(QUERY, active=True),),
    }
    return Status(**plain | fields)


def batch(seconds: float, *, ago: float = 5.0, now: float = 2000.0, **fields: Any) -> Batch:
    """A batch that took `seconds` and completed `ago` seconds before `now`."""
    plain: dict[str, Any] = {"query": QUERY, "records": 100}
    return Batch(completed_at=now - ago, processing_ms=round(seconds * 1000), **plain | fields)
