"""Checkpoints that would be lost: in a driver's pod, or where its image can't write. Pure."""

import re
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
_IMAGE = 'take an image that has it, as in docs/kubernetes.md, "Clouds"'
_SPARKS_OWN = re.compile(r"(docker\.io/)?((library/)?spark|apache/spark(-py|-r)?)(:.*)?")
"""Images of Spark's distribution as it is, which has a client for HDFS and local files only."""
_ADDS_JARS = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")
_CONNECTORS = {
    "s3a": "org.apache.hadoop:hadoop-aws and the AWS SDK",
    "gs": "Google's gcs-connector",
    "abfs": "org.apache.hadoop:hadoop-azure",
    "abfss": "org.apache.hadoop:hadoop-azure",
}


def conditions(
    streams: Sequence[Stream], template: Mapping[str, Any], common: Mapping[str, str], image: str
) -> Iterator[Condition]:
    """What could be better of where streams keep their checkpoints.

    Args:
        template: the driver's.
        common: Spark settings of all streams.
        image: of drivers and executors.
    """
    mounts = _mounts(template)
    for stream in streams:
        location = stream.checkpoint_location
        if location is None:
            continue
        settings = {**common, **stream.spark_conf}
        lacks = _CONNECTORS.get(location.partition("://")[0])
        if lacks and _SPARKS_OWN.fullmatch(image) and not any(map(settings.get, _ADDS_JARS)):
            text = (
                f"{stream.name}: checkpoint_location = {location!r} needs {lacks}, which "
                f"Spark's own image {image!r} lacks"
            )
            yield Condition("checkpoint", text, _IMAGE, urgent=False)
        if not location.startswith(("/", "file:/")):
            continue
        if location.startswith("/") and any(name in settings for name in _ELSEWHERE):
            continue
        path = PurePosixPath("/" + location.removeprefix("file:").lstrip("/"))
        if any(path.is_relative_to(mount) for mount in mounts):
            continue
        # The image may have settings of Hadoop that name another file system.
        text = (
            f"{stream.name}: checkpoint_location = {location!r} is in the driver's pod and ends "
            "with it, unless the image says otherwise: each new driver would begin anew"
        )
        yield Condition("checkpoint", text, _CURE, urgent=False)


def _mounts(template: Mapping[str, Any]) -> list[str]:
    containers = (template.get("spec") or {}).get("containers") or []
    driver = [each for each in containers if each.get("name") == "driver"]
    return [str(m["mountPath"]) for c in driver for m in c.get("volumeMounts") or []]
