"""One spelling for each checkpoint, so that two that are the same are seen to be. Pure."""

import posixpath
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

DEFAULT_FS = "spark.hadoop.fs.defaultFS"
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")
_SAME = {"s3": "s3a", "s3n": "s3a"}
_CONTAINER_AT = ("abfs", "abfss", "wasb", "wasbs")
"""Schemes of URIs such as abfss://container@account.dfs.core.windows.net/path."""
_WRONG = (
    "must be an absolute path or a URI, such as /data/checkpoints/clicks or s3a://bucket/clicks; a "
    "relative one is another place wherever it is started from"
)


def normalized(location: str, settings: Mapping[str, str] | None = None) -> str:
    """The URI of a checkpoint, as any other spelling of it gives it too.

    `/x/`, `file:/x`, `file:///x/y/..` are the same folder; so are s3://, s3n:// and s3a://. A path
    without a scheme is on the file system that the Spark setting fs.defaultFS names, else on the
    host's own. Symbolic links are for whoever can see them.

    Args:
        settings: Spark's, of the stream.

    Raises:
        ValueError: the place is neither an absolute path nor a URI.
    """
    text = location.strip()
    if text.startswith("/"):
        base = (settings or {}).get(DEFAULT_FS, "file:///")
        text = base.rstrip("/") + "/" + text.lstrip("/")
    elif not _SCHEME.match(text):
        raise ValueError(_WRONG)
    try:
        parts = urlsplit(text.replace("?", "\0").replace("#", "\1"))
    except ValueError as error:
        raise ValueError(f"{_WRONG}; {error}") from None
    if parts.path and not parts.path.startswith("/"):
        raise ValueError(_WRONG)
    scheme = parts.scheme.lower()
    path = posixpath.normpath(parts.path or "/")
    path = "/" + path.lstrip("/") if path.startswith("/") else path
    # Without a user and a password, which are no part of the place; of Azure it is the container.
    host = parts.netloc if scheme in _CONTAINER_AT else parts.netloc.rpartition("@")[2]
    host = "" if scheme == "file" else host.lower()
    name = f"{_SAME.get(scheme, scheme)}://{host}{path}"
    return name.replace("\0", "?").replace("\1", "#")
