"""The releases of Spark that this runs on, and the sentence for one that won't do. No pyspark
here."""

import re
from pathlib import Path

TESTED = ("3.5", "4.0", "4.1", "4.3")
"""Releases that this was tested with."""
LEAST = "3.5"


class TooOld(Exception):
    """This release of Spark lacks what was asked for; the text says what, and which one has it."""


def is_before(least: str, version: str) -> bool:
    """Whether `version` is before the release `least`; False where that can't be told."""
    here = _numbers(version)
    return here is not None and here < (_numbers(least) or here)


def need(what: str, least: str, version: str) -> None:
    """
    Args:
        least: the first release that has it, such as "4.2".
        version: of the Spark that is there. What does not begin with two numbers is let pass.

    Raises:
        TooOld: the Spark here is older.
    """
    if is_before(least, version):
        raise TooOld(f"{what} needs Spark {least} or newer; this is Spark {version}")


def release_at(home: Path) -> str | None:
    """The version of the Spark in `home`, such as 4.3.0, by the name of a jar; None: it does not
    tell."""
    for jar in sorted(home.glob("jars/spark-core_*.jar")):
        if found := re.fullmatch(r"spark-core_[\d.]+-(\d.*)\.jar", jar.name):
            return found[1]
    return None


def minor(version: str) -> str:
    """`4.3` of `4.3.1`."""
    return ".".join(version.split(".")[:2])


def _numbers(version: str) -> tuple[int, int] | None:
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else None
