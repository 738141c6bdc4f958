"""The code that a driver needs and its image need not have: the driver package and the sources.

    PYTHONPATH=/where/it/lies/dagster_sparkscale.zip python -m dagster_sparkscale.driver ...

What must not change: the same code gives the same bytes, so that two starts can share one.
"""

import functools
import io
import zipfile
from pathlib import Path

NAME = "dagster_sparkscale.zip"
_PACKAGE = Path(__file__).parents[2]
_BEGAN = (1980, 1, 1, 0, 0, 0)
"""The first date that a zip file can tell."""


@functools.cache
def parcel() -> bytes:
    """A zip file to put on the PYTHONPATH of drivers and executors."""
    files = [
        *(_PACKAGE / name for name in ("__init__.py", "version.py", "durations.py")),
        *(_PACKAGE / "driver").rglob("*.py"),
        *(_PACKAGE / "sources").rglob("*.py"),
        _PACKAGE.parent / "pyspark_kinesis_direct.py",
    ]
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for path in sorted(files):
            entry = zipfile.ZipInfo(str(path.relative_to(_PACKAGE.parent)), _BEGAN)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, path.read_bytes())
    return content.getvalue()
