"""Names of a stream's objects, and the labels by which they are found. Pure.

What must not change: two streams never have objects of one name, nor two kinds of object of one
stream. A record and a claim have a dot in their names, which nothing of an epoch has.
"""

import hashlib
from collections.abc import Mapping

PREFIX = "sparkscale"
STREAM = "dagster-sparkscale/stream"
"""The stream's short name (`short_name`): neither every name nor every length can be a label."""
EPOCH = "dagster-sparkscale/epoch"
RECORD = "dagster-sparkscale/record"
"""The id of the stream's record: distinguishes its drivers from those of another store."""
KEEPS = "dagster-sparkscale/keeps"
"""The kind of a stored object: `record` or `claim`."""
MANAGED = "app.kubernetes.io/managed-by"
MANAGER = "dagster-sparkscale"
NAME = "dagster-sparkscale/stream-name"
"""The annotation with the stream's own name."""

_LABEL = 63
"""Characters of a label, and of a name that is to be a host's."""
EXECUTORS = 38
"""Characters of the prefix of executors' names, to which Spark adds up to 25."""
_HASH = 8


def short_name(stream: str, longest: int = 40) -> str:
    """The stream's name within names of objects: small letters, digits and hyphens.

    One of small letters, digits and underscores stays what it is, with hyphens for underscores; any
    other, or a longer one, ends in a hash of what it was.
    """
    plain = stream.lower().replace("_", "-")
    if stream == stream.lower() and len(plain) <= longest and not plain.endswith("-"):
        return plain
    cut = plain[: longest - _HASH - 1].rstrip("-")
    return f"{cut}-{hashlib.sha256(stream.encode()).hexdigest()[:_HASH]}"


def of_epoch(stream: str, epoch: int, longest: int = _LABEL) -> str:
    """The name of the driver's pod of that start, and of its Service, Secret and ConfigMap."""
    around = len(f"{PREFIX}--{epoch}")
    return f"{PREFIX}-{short_name(stream, min(40, longest - around))}-{epoch}"


def of_record(stream: str) -> str:
    """The ConfigMap with the record of a stream."""
    return f"{PREFIX}.{short_name(stream)}"


def of_claim(checkpoint: str) -> str:
    """The ConfigMap with the claim on a checkpoint."""
    return f"{PREFIX}.checkpoint.{hashlib.sha256(checkpoint.encode()).hexdigest()[:32]}"


def labels(stream: str, epoch: int, record: str) -> dict[str, str]:
    """The labels of every object of one start."""
    return {MANAGED: MANAGER, STREAM: short_name(stream), EPOCH: str(epoch), RECORD: record}


def selector(labels: Mapping[str, str]) -> str:
    """A query for all that has these labels; the empty value stands for any."""
    return ",".join(f"{key}={value}" if value else key for key, value in labels.items())
