"""The options with which a JVM uses an archive of class data, and who else decides about them."""

import re
from collections.abc import Mapping
from pathlib import Path

from dagster_sparkscale.clusters.launch.spark_settings import speaks_of_sharing

# Its warnings go to the standard output, where somebody may read something else.
_QUIET = "-Xlog:cds*=off"
VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
"""Environment variables from which every JVM reads options."""


def options(archive: Path) -> list[str]:
    """The options with which a JVM uses `archive` where it can, and is silent where it can't.

    The file must be there: for one that is missing, Java 17 does without its own archive too.
    """
    return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", _QUIET]


def can_be_named(path: Path) -> bool:
    """Whether Java's options, Spark's settings and its scripts all take `path` for one word.

    A colon parts two archives; quotes and backslashes end elsewhere than they should.
    """
    return re.fullmatch(r"[\w./+,=@%~ -]+", str(path)) is not None


def decided_by(environ: Mapping[str, str]) -> bool:
    """Whether what every JVM reads from its environment decides about class-data sharing."""
    return any(speaks_of_sharing(environ.get(name, "")) for name in VARIABLES)
