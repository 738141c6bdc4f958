"""The settings of Spark's own streaming allocation, as fields of a `RatioPolicy`. Pure."""

from collections.abc import Callable, Mapping

from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.declare.faults import did_you_mean
from dagster_sparkscale.durations import parse_duration

_FAMILY = "spark.streaming.dynamicAllocation."
_INITIAL = "spark.dynamicAllocation.initialExecutors"
_INSTANCES = "spark.executor.instances"
_ENABLED = _FAMILY + "enabled"
_SWITCHES = (_ENABLED, _FAMILY + "testing")


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("must be a whole number") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("must be a number") from None


# Spark's key -> our field, and how its value is read.
_FIELDS: dict[str, tuple[str, Callable[[str], float | int]]] = {
    _FAMILY + "scalingInterval": ("interval", parse_duration),
    _FAMILY + "scalingUpRatio": ("scale_up_ratio", _number),
    _FAMILY + "scalingDownRatio": ("scale_down_ratio", _number),
    _FAMILY + "minExecutors": ("min_executors", _whole),
    _FAMILY + "maxExecutors": ("max_executors", _whole),
    _INITIAL: ("initial_executors", _whole),
}


def policy_fields(conf: Mapping[str, str]) -> dict[str, float | int]:
    """The fields that `conf` sets. Settings of other families are left alone.

    Raises:
        DeclarationError: `conf` is no dict, a setting of the family is unknown or has no usable
            value, or the family is switched off: the job has a fixed number of executors.
    """
    if not isinstance(conf, Mapping):
        raise DeclarationError(f"conf: a {type(conf).__name__}; must be a dict of Spark's settings")
    enabled = str(conf.get(_ENABLED, "true")).strip().lower()
    if enabled not in ("true", "false"):
        raise DeclarationError(f"{_ENABLED} = {conf[_ENABLED]!r}: must be true or false")
    if enabled == "false":
        raise DeclarationError(
            f"{_ENABLED} = {conf[_ENABLED]!r}: this job does not scale. Declare the stream with "
            "executors, and without a policy; or leave the setting out, to have it scale"
        )
    fields: dict[str, float | int] = {}
    for key, text in conf.items():
        if key in _FIELDS:
            field, read = _FIELDS[key]
            try:
                fields[field] = read(str(text))
            except ValueError as error:
                raise DeclarationError(f"{key} = {text!r}: {error}") from None
        elif str(key).startswith(_FAMILY) and key not in _SWITCHES:
            known = [name for name in _FIELDS if name != _INITIAL]
            raise DeclarationError(
                f"{key}: not a setting Spark has;{did_you_mean(key, known)} "
                f"it has {', '.join(known)}"
            )
    if _INSTANCES in conf:
        fields["initial_executors"] = _initial(str(conf[_INSTANCES]), fields)
    return fields


def _initial(instances: str, fields: Mapping[str, float | int]) -> int:
    """The executors that a job begins with (`SchedulerBackendUtils`): under its allocation for
    streaming, Spark heeds this setting alone; within the bounds, where it soon gets to."""
    try:
        number = _whole(instances)
    except ValueError as error:
        raise DeclarationError(f"{_INSTANCES} = {instances!r}: {error}") from None
    least, most = int(fields.get("min_executors", 1)), fields.get("max_executors")
    return max(least, number if most is None else min(number, int(most)))
