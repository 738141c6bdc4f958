"""The releases of Spark that this runs on, and the sentence for one that will not do. pyspark is
imported only to change its readers."""

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TESTED = ("3.5", "4.0", "4.1", "4.3")
"""Releases that this was tested with."""
LEAST = "3.5"
SOURCES = {"kinesis-direct": {"read": "4.0", "readStream": "4.2"}}
"""The first releases that can read each format by `spark.read` and `spark.readStream`."""


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


def say_where_asked_for() -> None:
    """Have a program that asks for one of `SOURCES` told by a `TooOld` that this Spark can't: Spark
    itself says of a source that it has no place for that there is no such class."""
    import pyspark
    from pyspark.sql import DataFrameReader
    from pyspark.sql.streaming import DataStreamReader

    version = pyspark.__version__
    for reader, how in ((DataFrameReader, "read"), (DataStreamReader, "readStream")):
        least = {source: releases[how] for source, releases in SOURCES.items()}
        if any(is_before(each, version) for each in least.values()):
            reader.format = _checked(reader.format, how, least, version)


def _checked(original: Any, how: str, least: Mapping[str, str], version: str) -> Any:
    @functools.wraps(original)
    def format(reader: Any, source: str) -> Any:
        if source in least:
            need(f'spark.{how}.format("{source}")', least[source], version)
        return original(reader, source)

    return format


def _numbers(version: str) -> tuple[int, int] | None:
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else None
