"""The values that can be tuned of a stream, by name, into Spark settings. Pure.

    clicks.maxOffsetsPerTrigger        an option of the source `clicks`, of Structured Streaming
    backpressure.initial_rate          a field of the backpressure policy
    spark.streaming.receiver.maxRate   a Spark setting, of DStreams

New values are put into a copy of the declaration, which refuses what makes no sense in its own
words; the settings are those that the copy makes.
"""

import math
from collections.abc import Mapping
from typing import Any

from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.declare.limits import SourceLimits, StreamingLimits
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.declare.streams import DStream, StructuredStream
from dagster_sparkscale.in_force.limits import MAX_DELAY, OPTIONS, POLICY, RATES, STREAMING
from dagster_sparkscale.in_force.tuned import declared_limits


def option(limit: str, other: str) -> str:
    """Another option of the source that a limit is of."""
    return f"{limit.rpartition('.')[0]}.{other}"


def with_values(
    stream: Stream, in_force: Mapping[str, float | None], wanted: Mapping[str, float]
) -> dict[str, str]:
    """The settings of limits of `stream` with these values.

    Args:
        in_force: the values of `in_force.values_of`.
        wanted: by limit.

    Raises:
        DeclarationError: no limit has that name; or a value makes no sense, by itself or beside the
            others.
    """
    for limit, value in wanted.items():
        if limit not in in_force:
            known = ", ".join(sorted(in_force)) or "none: it declares no limits"
            raise DeclarationError(f"{limit}: {stream.name!r} has no such limit; it has {known}")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise DeclarationError(f"{limit} = {value!r}: must be a number")
        if not math.isfinite(value) or value <= 0:
            raise DeclarationError(f"{limit} = {value:g}: must be above 0")
        if limit not in _FRACTIONS and value != int(value) and not limit.endswith(f".{MAX_DELAY}"):
            raise DeclarationError(f"{limit} = {value:g}: must be a whole number")
    now = {limit: value for limit, value in in_force.items() if value is not None} | dict(wanted)
    more: dict[str, Any] = {}
    if isinstance(stream, StructuredStream) and stream.limits:
        more["limits"] = {
            source: _with_options(limits, source, now) for source, limits in stream.limits.items()
        }
    if isinstance(stream, DStream) and stream.limits is not None:
        given = {field: int(now[setting]) for setting, field in STREAMING.items() if setting in now}
        more["limits"] = StreamingLimits(**{**_declared(stream.limits), **given})
    if stream.backpressure is not None:
        rates = {limit.removeprefix(POLICY): now[limit] for limit in RATES if limit in now}
        policy = type(stream.backpressure)
        more["backpressure"] = policy(**{**_declared(stream.backpressure), **rates})
    return declared_limits(type(stream)(**{**_declared(stream), **more}))


_FRACTIONS = RATES
"""Limits whose values need not be whole."""


def _with_options(limits: SourceLimits, source: str, now: Mapping[str, float]) -> SourceLimits:
    given: dict[str, Any] = {}
    for name, field in OPTIONS.items():
        if (value := now.get(f"{source}.{name}")) is not None:
            given[field] = value if name == MAX_DELAY else int(value)
    return SourceLimits(**{**_declared(limits), **given})


def _declared(declared: Any) -> dict[str, Any]:
    """The fields that a declaration was given."""
    return {name: getattr(declared, name) for name in declared.model_fields_set}
