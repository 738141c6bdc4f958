"""Which checkpoints would end with their driver's pod. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from dagster_sparkscale.clusters.conditions import Condition
from dagster_sparkscale.declare.stream import Stream

_ELSEWHERE = ("spark.hadoop.fs.defaultFS", "spark.hadoop.fs.default.name")
"""Settings by which a plain path is not one of the pod."""
_CURE = (
    "take a URI of storage that stays, such as s3a://, or mount a volume there in driver_template "
    "and executor_template"
)


def conditions(
    streams: Sequence[Stream], template: Mapping[str, Any], common: Mapping[str, str]
) -> Iterator[Condition]:
    """What could be better of where streams keep their checkpoints.

    Args:
        template: the driver's.
        common: Spark settings of all streams.
    """
    mounts = _mounts(template)
    for stream in streams:
        given = stream.checkpoint_location
        if given is None or not given.startswith(("/", "file:/")):
            continue
        settings = {**common, **stream.spark_conf}
        if given.startswith("/") and any(name in settings for name in _ELSEWHERE):
            continue
        path = PurePosixPath("/" + given.removeprefix("file:").lstrip("/"))
        if any(path.is_relative_to(mount) for mount in mounts):
            continue
        # The image may have settings of Hadoop that name another file system.
        text = (
            f"{stream.name}: checkpoint_location = {given!r} is in the driver's pod and ends with "
            "it, unless the image says otherwise: each new driver would begin anew"
        )
        yield Condition("checkpoint", text, _CURE, urgent=False)


def _mounts(template: Mapping[str, Any]) -> list[str]:
    containers = (template.get("spec") or {}).get("containers") or []
    driver = [each for each in containers if each.get("name") == "driver"]
    return [str(m["mountPath"]) for c in driver for m in c.get("volumeMounts") or []]
