"""A session in which state is read and rewritten without its rows being counted.

RocksDB's stores look each row up before they write it, to count those that are new (`RocksDB.put`,
Spark 4.3): so when all of it is rewritten, and when changelogs are played back to read it. That is
half of the time of either. What is written so has no number of rows: whoever loads it counts them,
which takes a tenth of that, until the query writes its next snapshot (`RocksDB.openLocalRocksDB`).
"""

from functools import cached_property
from typing import Any

from dagster_sparkscale.driver.log import say
from dagster_sparkscale.driver.spark.looks import first_line

from . import layout

COUNTED = "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows"


def uncounted(session: Any, format: str | None) -> Any:
    """A session with the settings of `session`, but for two; `session` itself where there can
    be none. Queries go on in their own.

    Args:
        format: the version of the format of state stores in the checkpoint; None: what is set. A
            query goes by that of its checkpoint, whatever is set (`CheckpointVersionManager`, Spark
            4.3); repartitioning refuses where another one is set
            (`StateRewriter.verifyCheckpointFormatVersion`).
    """
    try:
        from pyspark.sql import SparkSession

        clone = session._jsparkSession.cloneSession()
        clone.conf().set(COUNTED, "false")
        if format is not None:
            clone.conf().set(layout.FORMAT, format)
        # Not by its constructor, which has frames of all RDDs made by the newest session.
        made = object.__new__(SparkSession)
        made.__dict__.update(_own(session))
        made._jsparkSession = clone
    except Exception as error:
        say(f"rows of state are counted while it is rewritten: {first_line(error)}")
        return session
    return made


def _own(session: Any) -> dict[str, Any]:
    """What a session was made of; without what it has come to since, which hangs on its session of
    the JVM."""
    later = {
        name for name, kept in vars(type(session)).items() if isinstance(kept, cached_property)
    }
    return {n: part for n, part in vars(session).items() if n.startswith("_") and n not in later}
