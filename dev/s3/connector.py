"""Hadoop's S3A, which is no part of PySpark, with the parts of Amazon's SDK that it uses.

Users take the SDK whole, `software.amazon.awssdk:bundle`, as the pom of hadoop-aws has it: 690 MB.
These are the same classes in 11 MB; what the SDK needs besides is among Spark's own jars.
"""

from pathlib import Path

from dev import jars

WORKS_ON = ("4.3",)
"""Releases of Spark whose Hadoop it is of."""
_LOCK = Path(__file__).parent / "connector.lock"
_INSTALLED = jars.CACHE / "s3" / "connector"


def connector() -> str:
    """The jars as the setting `spark.jars` takes them.

    Raises:
        InstallFailed: one can't be had.
    """
    return jars.listed(_LOCK, _INSTALLED)
