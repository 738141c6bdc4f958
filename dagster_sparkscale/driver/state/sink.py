"""The log of Spark's file sink: which files each batch of a query has written.

Offline repartitioning takes the number of a batch and writes nothing. The sink's log must have an
entry for every batch all the same: where one is missing neither the sink, when it next compacts the
log, nor whoever reads what was written gets past it (BATCH_METADATA_NOT_FOUND).
"""

from typing import Any

from .folder import Folder

LOG = "_spark_metadata"
"""The log of a file sink, in the folder that the query writes to."""
_VERSION = 1
_OWN = "spark_catalog"


def pass_over(session: Any, output: str, batch: int) -> None:
    """Have it noted that a batch has written no files; nothing to do where that is noted already,
    or what the query writes to has no such log.

    Only for a batch that is done for good: what is noted as written is not written again.

    Args:
        session: a SparkSession, of Spark 4.2 or newer.
        output: the folder that the query writes to.
    """
    folder = Folder(session, output)
    if not folder.exists(LOG):
        return
    sinks = session._jvm.org.apache.spark.sql.execution.streaming.sinks
    log = sinks.FileStreamSinkLog(
        _VERSION, session._jsparkSession, f"{folder.path}/{LOG}", session._jvm.scala.Option.empty()
    )
    # By Spark itself: every so many batches an entry has all that were before.
    log.add(batch, session._sc._gateway.new_array(sinks.SinkFileStatus, 0))


def location(session: Any, table: str) -> str | None:
    """The folder that a table of Spark's own catalog is in; None: it is none of these, or is not
    there yet. Tables of other catalogs have no such log."""
    state = session._jsparkSession.sessionState()
    try:
        name = state.sqlParser().parseTableIdentifier(table)
    except Exception:  # more parts than it can have
        return None
    if (name.catalog().get() if name.catalog().isDefined() else None) not in (None, _OWN):
        return None
    if not state.catalog().tableExists(name):
        return None
    return str(state.catalog().getTableMetadata(name).location().toString())
