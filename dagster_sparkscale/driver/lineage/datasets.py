"""The datasets that a query reads and writes, named as OpenLineage names them. Pure.

The names are those of the naming conventions of OpenLineage (openlineage.io/docs/spec/naming), and
where these have none, such as for Kinesis, those of OpenLineage's own integration with Spark: only
so do they meet the datasets of whoever else reads or writes the same.
"""

import json
import re
from collections.abc import Mapping
from typing import NamedTuple


class Dataset(NamedTuple):
    """A dataset, by its two names."""

    namespace: str
    name: str


FILES = frozenset(
    {"avro", "binaryfile", "csv", "delta", "hudi", "json", "orc", "parquet", "text", "xml"}
)
"""Formats whose `path` is a place of files."""
LONGEST = 1000
"""Characters of a name at most."""

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(.*)", re.DOTALL)
_STORES = {
    **dict.fromkeys(("s3", "s3a", "s3n"), "s3"),
    **dict.fromkeys(("abfs", "abfss"), "abfss"),
    **dict.fromkeys(("wasb", "wasbs"), "wasbs"),
    "gs": "gs",
}
"""The schemes of object stores, and how a namespace begins."""
_PATTERN = re.compile(r"[*?\[{]")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:@/\[\]]+)(:\d+)?")
"""A host or a bucket, with a port or without."""


def read_from(
    format: str, options: Mapping[str, str], default_fs: str = "file:///"
) -> tuple[Dataset, ...]:
    """The datasets that a source of `format` reads.

    Args:
        options: of the reader.
        default_fs: the file system of a path without a scheme, Hadoop's `fs.defaultFS`.
    """
    given = {name.lower(): value for name, value in options.items()}
    if format.lower() == "kafka":
        return _topics(given, _subscribed(given))
    if "kinesis" in format.lower():
        return _of_kinesis(given)
    return _files(format, given, default_fs)


def written_to(
    format: str | None, options: Mapping[str, str], default_fs: str = "file:///"
) -> tuple[Dataset, ...]:
    """The datasets that a writer of `format` writes; None: the program has given none, which is
    Spark's default, a format of files.

    Args:
        options: of the writer.
    """
    given = {name.lower(): value for name, value in options.items()}
    if format is not None and format.lower() == "kafka":
        return _topics(given, [given["topic"]] if given.get("topic") else [])
    return _files(format or "parquet", given, default_fs)


def _subscribed(options: Mapping[str, str]) -> list[str]:
    if "subscribe" in options:
        return options["subscribe"].split(",")
    if "assign" in options:
        try:
            return list(json.loads(options["assign"]))
        except (ValueError, TypeError):
            return []
    return []


def _topics(options: Mapping[str, str], topics: list[str]) -> tuple[Dataset, ...]:
    first, _, others = options.get("kafka.bootstrap.servers", "").partition(",")
    server = _host(first.strip().rpartition("://")[2], others)  # it may begin with a protocol
    if not server:
        return ()
    named = (topic.strip() for topic in topics)
    return tuple(_dataset(f"kafka://{server}", topic) for topic in named if topic)


def _of_kinesis(options: Mapping[str, str]) -> tuple[Dataset, ...]:
    """Named as OpenLineage's integration with Spark does: the host of the endpoint, and its port
    where it is none of HTTP's."""
    stream = options.get("streamname") or options.get("kinesis.streamname")
    region = options.get("region") or options.get("kinesis.region")
    endpoint = options.get("endpointurl") or options.get("kinesis.endpointurl")
    found = _URI.fullmatch(endpoint or "")
    if found:
        host = re.sub(r":(443|80)$", "", _host(found[2] or "", found[3]))
    else:
        host = _host(f"kinesis.{region}.amazonaws.com") if region else ""
    return (_dataset(f"kinesis://{host}", stream),) if stream and host else ()


def _files(format: str, options: Mapping[str, str], default_fs: str) -> tuple[Dataset, ...]:
    """Files of `format`; a class's name says it in its last part, as `...json.JsonFileFormat`."""
    kind = format.lower().rpartition(".")[2].removesuffix("fileformat")
    path = options.get("path")
    if kind not in FILES or not path:
        return ()
    dataset = of_path(path, default_fs)
    return () if dataset is None else (dataset,)


def of_path(path: str, default_fs: str = "file:///") -> Dataset | None:
    """The dataset at a path, without a login that it may have; None: it is relative, a pattern from
    its beginning on, or has no host where one must be.

    Of a pattern, it is the folder in which that begins.
    """
    found = _URI.fullmatch(path)
    if found is None:
        if not path.startswith("/"):
            return None
        found = _URI.fullmatch(default_fs.rstrip("/") + path)
        if found is None:
            return None
    scheme, authority, place = found[1].lower(), found[2] or "", found[3]
    default = _URI.fullmatch(default_fs)
    if not authority and default is not None and default[1].lower() == scheme:
        authority = default[2] or ""  # as Hadoop takes it, for hdfs:///in
    if pattern := _PATTERN.search(place):
        place = place[: pattern.start()].rpartition("/")[0]
    place = place.rstrip("/")
    host = _host(authority, found[3])
    if scheme in _STORES:
        container = authority.rpartition("@")[0] if "abfs" in scheme or "wasb" in scheme else ""
        # What has a colon is a login.
        bucket = f"{container}@{host}" if host and container and ":" not in container else host
        return _dataset(f"{_STORES[scheme]}://{bucket}", place.lstrip("/")) if bucket else None
    if scheme == "file":
        return _dataset("file", place)
    if authority and not host:
        return None
    return _dataset(f"{scheme}://{host}" if host else scheme, place)


def _host(authority: str, behind: str = "") -> str:
    """The host and the port of an authority, without the login before them; empty where it has none
    of their shape, as where a password with a slash in it has cut it off.

    Args:
        behind: what follows it. With an @ in that, what has the shape of a host and a port may be
            a user and the beginning of a password.
    """
    if ":" in authority and "@" in behind:
        return ""
    host = authority.rpartition("@")[2]
    return host if _HOST.fullmatch(host) else ""


def _dataset(namespace: str, name: str) -> Dataset:
    return Dataset(namespace[:LONGEST], name[:LONGEST] or "/")
