"""What a release of Spark lacks, said where a program asks for it.

Spark itself says of a source that it has no place for that there is no such class.
"""

import functools
from collections.abc import Mapping
from typing import Any

from .releases import is_before, need

SOURCES = {"kinesis-direct": {"read": "4.0", "readStream": "4.2"}}
"""The first releases that can read each format by `spark.read` and `spark.readStream`."""


def say_where_asked_for() -> None:
    """Have a program that asks for one of `SOURCES` told by a `TooOld` that this Spark can't."""
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
