"""Starts streaming queries on machines that may be busy. Imported by programs and by tests."""

import time

from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

_TOO_LATE = "Python worker failed to connect back"
_ATTEMPTS = 10


def started(writer: DataStreamWriter) -> StreamingQuery:
    """A query that has begun, or has failed for a reason of its own.

    Spark gives the Python process that plans a source's batches ten seconds to come (in
    PythonWorkerFactory, and not to be set), which beside other tests it may need. Nothing has been
    read by then, so the query is started again.
    """
    for _ in range(_ATTEMPTS):
        query = writer.start()
        while query.isActive and query.status["message"].startswith("Initializing"):
            time.sleep(0.02)
        if query.isActive or _TOO_LATE not in str(query.exception()):
            break
    return query
