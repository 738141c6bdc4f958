"""Spark's connector for Kafka, which is no part of PySpark.

Maven Central has no release of it for Spark 4.3 yet. That of 4.2, which `connector.lock` names with
all that it needs, works on both.
"""

from pathlib import Path

from dev import jars

WORKS_ON = ("4.2", "4.3")
"""Releases of Spark."""
_LOCK = Path(__file__).parent / "connector.lock"
_INSTALLED = jars.CACHE / "kafka" / "connector"


def connector() -> str:
    """The jars as the setting `spark.jars` takes them.

    Raises:
        InstallFailed: one can't be had.
    """
    return jars.listed(_LOCK, _INSTALLED)
