"""The log of batches that Spark's file sink keeps beside the files that a query writes.

`FileStreamSink` makes an entry a batch in `_spark_metadata`. A batch that has none fails whoever
reads the files, and the query itself as soon as it takes entries together (each tenth batch, by
`CompactibleFileStreamLog`). The batch by which a state is changed never comes to the sink: its
entry, of no files, is made here.
"""

from collections.abc import Mapping
from typing import Any

from . import layout
from .folder import Folder

LOG = "_spark_metadata"
_COMPACT = ".compact"


def latest(names: list[str]) -> int | None:
    """The highest batch among the names in the log; None: there is none."""
    return layout.latest(name.removesuffix(_COMPACT) for name in names)


class Output:
    """What a query writes to.

    Args:
        options: of its writer, by their names in small letters.
        table: that it writes to; None: it writes to no table of the catalog.
    """

    def __init__(self, session: Any, options: Mapping[str, str], table: str | None = None) -> None:
        self._session, self._path, self._table = session, options.get("path"), table

    def last_written(self) -> int | None:
        """The last batch in the log of its file sink; None: it has none."""
        place = self._place()
        return None if place is None else latest(Folder(self._session, place).names(LOG))

    def pass_over(self, batch: int) -> None:
        """Have the log of a file sink go on after `batch`, which comes to no sink. Once."""
        place = self._place()
        if place is None or self.last_written() != batch - 1:
            return  # no file sink, the log of another query, or it is noted already
        jvm = self._session._jvm
        sinks = jvm.org.apache.spark.sql.execution.streaming.sinks
        folder = Folder(self._session, place)
        log = sinks.FileStreamSinkLog(
            sinks.FileStreamSinkLog.VERSION(),
            self._session._jsparkSession,
            f"{folder.path}/{LOG}",
            jvm.scala.Option.empty(),
        )
        none = self._session._sc._gateway.new_array(sinks.SinkFileStatus, 0)
        log.add(batch, none)
        if self.last_written() != batch:
            raise RuntimeError(f"{folder.name}/{LOG}: batch {batch} could not be noted")

    def _place(self) -> str | None:
        """The folder where a file sink would write; None: it has none."""
        if self._table is None:
            return self._path
        state = self._session._jsparkSession.sessionState()
        try:
            table = state.sqlParser().parseTableIdentifier(self._table)
            if state.catalog().tableExists(table):
                return str(state.catalog().getTableMetadata(table).location().toString())
        except Exception as error:
            if "ParseException" not in str(error):
                raise
        return self._path  # no table of Spark's own catalog, so none of files
