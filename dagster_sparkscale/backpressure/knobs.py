"""The values that can be tuned of a stream, by name; from Spark settings, and into them. Pure.

    clicks.maxOffsetsPerTrigger        an option of the source `clicks`, of Structured Streaming
    backpressure.initial_rate          a field of the backpressure policy
    spark.streaming.receiver.maxRate   a Spark setting, of DStreams

New values are put into a copy of the declaration, which refuses what makes no sense in its own
words; the settings are those that the copy makes.
"""

import math
from collections.abc import Mapping
from typing import Any

from dagster_sparkscale.clusters.tuned import declared_limits
from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.declare.limits import SourceLimits, StreamingLimits
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.declare.streams import DStream, StructuredStream
from dagster_sparkscale.driver.backpressure.plan import BadPlan, plan_of
from dagster_sparkscale.driver.wire import BACKPRESSURE, SOURCE_OPTIONS
from dagster_sparkscale.durations import parse_duration

MAX_OFFSETS = "maxOffsetsPerTrigger"
MIN_OFFSETS = "minOffsetsPerTrigger"
MAX_DELAY = "maxTriggerDelay"
INITIAL_RATE = "backpressure.initial_rate"
MIN_RATE = "backpressure.min_rate"
MAX_RATE = "backpressure.max_rate"
RECEIVER_MAX = "spark.streaming.receiver.maxRate"
RECEIVER_INITIAL = "spark.streaming.backpressure.initialRate"

_POLICY = "backpressure."
_RATES = (INITIAL_RATE, MIN_RATE, MAX_RATE)
_FIELDS = {name: field for field, name in SourceLimits.spark_options.items()}
_STREAMING = {
    StreamingLimits.spark_settings[field]: field
    for field in ("initial_rate", "max_rate", "max_rate_per_partition", "min_rate_per_partition")
}


def option(knob: str, other: str) -> str:
    """Another option of the source that a knob is of."""
    return f"{knob.rpartition('.')[0]}.{other}"


def values(stream: Stream, settings: Mapping[str, str]) -> dict[str, float | None]:
    """The values that can be tuned of `stream`, by knob. None: there is no limit.

    Args:
        settings: of limits, as they are in force.
    """
    found: dict[str, float | None] = {}
    if isinstance(stream, StructuredStream):
        for source in stream.limits:
            for name in _FIELDS:
                text = settings.get(f"{SOURCE_OPTIONS}{source}.{name}")
                found[f"{source}.{name}"] = _value(name, text)
    if isinstance(stream, DStream) and stream.limits is not None:
        for setting in _of_dstream(stream):
            found[setting] = _value(setting, settings.get(setting))
    if stream.backpressure is not None:
        plan = None
        if (text := settings.get(BACKPRESSURE)) is not None:
            try:
                plan = plan_of(text)
            except BadPlan:
                plan = None
        of: Any = plan if plan is not None else stream.backpressure
        found |= {knob: getattr(of, knob.removeprefix(_POLICY)) for knob in _RATES}
    return found


def with_values(
    stream: Stream, in_force: Mapping[str, float | None], wanted: Mapping[str, float]
) -> dict[str, str]:
    """The settings of limits of `stream` with these values.

    Args:
        in_force: as `values` tells them.
        wanted: by knob.

    Raises:
        DeclarationError: there is no such knob; or a value makes no sense, by itself or beside the
            others.
    """
    for knob, value in wanted.items():
        if knob not in in_force:
            known = ", ".join(sorted(in_force)) or "none: it declares no limits"
            raise DeclarationError(f"{knob}: {stream.name!r} has no such limit; it has {known}")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise DeclarationError(f"{knob} = {value!r}: must be a number")
        if not math.isfinite(value) or value <= 0:
            raise DeclarationError(f"{knob} = {value:g}: must be above 0")
        if knob not in _FRACTIONS and value != int(value) and not knob.endswith(f".{MAX_DELAY}"):
            raise DeclarationError(f"{knob} = {value:g}: must be a whole number")
    now = {knob: value for knob, value in in_force.items() if value is not None} | dict(wanted)
    more: dict[str, Any] = {}
    if isinstance(stream, StructuredStream) and stream.limits:
        more["limits"] = {
            source: _with_options(limits, source, now) for source, limits in stream.limits.items()
        }
    if isinstance(stream, DStream) and stream.limits is not None:
        given = {
            field: int(now[setting]) for setting, field in _STREAMING.items() if setting in now
        }
        more["limits"] = StreamingLimits(**{**_given(stream.limits), **given})
    if stream.backpressure is not None:
        rates = {knob.removeprefix(_POLICY): now[knob] for knob in _RATES if knob in now}
        policy = type(stream.backpressure)
        more["backpressure"] = policy(**{**_given(stream.backpressure), **rates})
    return declared_limits(type(stream)(**{**_given(stream), **more}))


_FRACTIONS = _RATES
"""Knobs whose values need not be whole."""


def _of_dstream(stream: DStream) -> list[str]:
    """Settings that are worth tuning of a DStream with limits."""
    assert stream.limits is not None
    declared = [setting for setting, field in _STREAMING.items() if _set(stream.limits, field)]
    if stream.receivers:
        declared.append(RECEIVER_MAX)
        if stream.backpressure is None:  # which has an initial_rate of its own
            declared.append(RECEIVER_INITIAL)
    return [setting for setting in _STREAMING if setting in declared]


def _set(limits: StreamingLimits, field: str) -> bool:
    return getattr(limits, field) is not None


def _with_options(limits: SourceLimits, source: str, now: Mapping[str, float]) -> SourceLimits:
    given: dict[str, Any] = {}
    for name, field in _FIELDS.items():
        if (value := now.get(f"{source}.{name}")) is not None:
            given[field] = value if name == MAX_DELAY else int(value)
    return SourceLimits(**{**_given(limits), **given})


def _given(declared: Any) -> dict[str, Any]:
    """The fields that a declaration was given."""
    return {name: getattr(declared, name) for name in declared.model_fields_set}


def _value(name: str, text: str | None) -> float | None:
    """What a setting says; None where it is not there, or says nothing that is a number."""
    if text is None:
        return None
    try:
        return parse_duration(text) if name == MAX_DELAY else float(text)
    except ValueError:
        return None
