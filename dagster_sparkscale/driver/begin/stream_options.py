"""The options of a stream's sources, as its declaration has them, for its program.

    from dagster_sparkscale import stream_options

    spark.readStream.format("kafka").options(**stream_options("clicks"))

They are Spark settings of the driver, `spark.sparkscale.options.<source>.<option>`, so a program
may also read one of them by itself, or be run by hand with some.
"""

import json
import sys
from collections.abc import Mapping
from typing import Any

from dagster_sparkscale.driver.settings import SOURCE_OPTIONS, SOURCES


class UnknownSource(ValueError):
    """The declaration has options for other sources; the text says for which."""


def stream_options(source: str, spark: Any = None) -> dict[str, str]:
    """What to pass to `.options(**...)` of a source, when its query is started.

    The dict is empty where the stream declares no limits, or there is no Spark yet: so a program
    runs by itself as it does as a stream.

    Args:
        source: the source's name in `limits` of the declaration.
        spark: a SparkSession or SparkContext. None: the active one.

    Raises:
        UnknownSource: the declaration has limits, but not for this name.
    """
    return options_of(source, settings_of(spark))


def options_of(source: str, settings: Mapping[str, str]) -> dict[str, str]:
    """The options of one source among all Spark settings.

    Raises:
        UnknownSource: only other sources have options.
    """
    found: dict[str, dict[str, str]] = {
        name: {} for name in json.loads(settings.get(SOURCES, "[]"))
    }
    for key, value in settings.items():
        if key.startswith(SOURCE_OPTIONS):
            name, _, option = key.removeprefix(SOURCE_OPTIONS).partition(".")
            found.setdefault(name, {})[option] = value
    if found and source not in found:
        raise UnknownSource(
            f"stream_options({source!r}): the stream's limits are of {', '.join(sorted(found))}; "
            f"declare limits={{{source!r}: SourceLimits(...)}}, or ask for one of these"
        )
    return found.get(source, {})


def settings_of(spark: Any) -> dict[str, str]:
    """All Spark settings of a program; empty where it has no Spark (yet).

    Args:
        spark: a SparkSession or SparkContext. None: the active one.
    """
    if spark is None:
        if "pyspark" not in sys.modules:
            return {}  # nobody has started Spark
        from pyspark import SparkContext

        spark = SparkContext._active_spark_context or _active_session()
        if spark is None:
            return {}
    if hasattr(spark, "getConf"):
        return dict(spark.getConf().getAll())
    settings = getattr(spark.conf, "getAll", None)  # from Spark 4.0 on
    return dict(spark.sparkContext.getConf().getAll() if settings is None else settings)


def _active_session() -> Any:
    """The session of a program that is a client of Spark Connect."""
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()
