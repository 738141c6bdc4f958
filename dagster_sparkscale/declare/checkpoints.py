"""One spelling for each checkpoint, so that two that are the same are seen to be. Pure."""

import posixpath
import re
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

DEFAULT_FS = "spark.hadoop.fs.defaultFS"
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")
_SAME = {"s3": "s3a", "s3n": "s3a"}


def normalized(location: str, settings: Mapping[str, str] | None = None) -> str:
    """The URI of a checkpoint, as any other spelling of it gives it too.

    `/x/`, `file:/x`, `file:///x/y/..` are the same folder; so are s3://, s3n:// and s3a://. A path
    without a scheme is on the file system that the Spark setting fs.defaultFS names, else on the
    host's own. Symbolic links are for whoever can see them.

    Args:
        settings: Spark's, of the stream.
    """
    text = location.strip()
    if not _SCHEME.match(text):
        base = (settings or {}).get(DEFAULT_FS, "file:///")
        text = base.rstrip("/") + "/" + text.lstrip("/") if text.startswith("/") else f"file:{text}"
    parts = urlsplit(text.replace("?", "%3F").replace("#", "%23"))
    scheme = parts.scheme.lower()
    path = posixpath.normpath(unquote(parts.path) or "/")
    path = "/" + path.lstrip("/") if path.startswith("/") else path
    host = "" if scheme == "file" else parts.netloc.lower()
    return f"{_SAME.get(scheme, scheme)}://{host}{path}"
