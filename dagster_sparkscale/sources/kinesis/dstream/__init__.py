"""Kinesis for DStreams: batches as RDDs, and positions that are committed."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .stream import kinesis_direct_stream as kinesis_direct_stream


def __getattr__(name: str) -> Any:
    if name == "kinesis_direct_stream":  # not before it is used: it loads PySpark
        from .stream import kinesis_direct_stream

        return kinesis_direct_stream
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
