"""A session in which state is read and rewritten without its rows being counted.

RocksDB's stores look each row up before they write it, to count those that are new (`RocksDB.put`,
Spark 4.3): so when all of it is rewritten, and when changelogs are played back to read it. That is
half of the time of either. What is written so has no number of rows: whoever loads it counts them,
which takes a tenth of that, until the query writes its next snapshot (`RocksDB.openLocalRocksDB`).
"""

from typing import Any

from dagster_sparkscale.driver.log import say
from dagster_sparkscale.driver.spark.looks import first_line

COUNTED = "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows"


def uncounted(session: Any) -> Any:
    """A session with the settings of `session`, but for this one; `session` itself where there can
    be none. Queries go on in their own."""
    try:
        from pyspark import RDD

        given = RDD.toDF
        try:
            made = type(session)(session._sc, session._jsparkSession.cloneSession())
        finally:
            RDD.toDF = given  # PySpark's constructor makes it this session's
        made.conf.set(COUNTED, "false")
    except Exception as error:
        say(f"rows of state are counted while it is rewritten: {first_line(error)}")
        return session
    return made
