"""What a DStream needs of the scheduler of its StreamingContext, in the JVM.

Spark's events alone do not do: they share a queue that drops some when it is full, and a listener
hears nothing more once its context is stopping. An event that is missing is made up for by a later
one, as the scheduler says which batches are pending, and the context whether anything has failed.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dagster_sparkscale.driver.settings import REPORTS


@dataclass(frozen=True)
class Completed:
    """A batch that has run, and whether all its output operations have succeeded."""

    time_ms: int
    """The batch's time, milliseconds since the epoch."""
    processing_ms: int
    failure: str | None = None


@dataclass(frozen=True)
class ContextState:
    """The state of a StreamingContext."""

    stopped: bool
    error: str | None = None
    """The error that `awaitTermination` raises from now on."""


class Batches:
    """
    Args:
        streaming: the pyspark StreamingContext.
        input_id: the id of the input stream under which batches are reported.
    """

    def __init__(self, streaming: Any, input_id: int) -> None:
        self._streaming = streaming
        self._java = streaming._jssc
        self._scala = streaming._jssc.ssc()
        self._jvm = streaming.sparkContext._jvm
        self._input_id = input_id

    def listen(self, completed: Callable[[Completed], None]) -> None:
        """Have each batch report that this input has been noted for, from a thread of Spark's."""
        from pyspark.streaming.listener import StreamingListener

        class Listener(StreamingListener):  # type: ignore[misc]
            def onBatchCompleted(listener, event: Any) -> None:
                info = event.batchInfo()
                # Where a window slides by several batches, some are without this input.
                if self._input_id in info.streamIdToInputInfo():
                    completed(_completed(info))

        self._streaming.addStreamingListener(Listener())

    def note(self, time_ms: int, records: int, source: str, limit: int | None) -> None:
        """Note down that a batch has this input. May be done once for a batch, while its jobs are
        being made.

        Args:
            source: for the driver's agent, which stream it is, and `limit`, to how many records the
                batch keeps.
        """
        names = self._jvm.org.apache.spark.streaming
        about = self._jvm.java.util.HashMap()
        about.put("source", source)
        about.put("limit", limit)
        report = self._jvm.PythonUtils.toScalaMap(about)
        info = names.scheduler.StreamInputInfo(self._input_id, records, report)
        self._scala.scheduler().inputInfoTracker().reportInfo(names.Time(time_ms), info)

    def pending(self) -> set[int]:
        """The times of the batches whose jobs were made and have not all succeeded."""
        times = self._scala.scheduler().getPendingTimes()
        return {times.apply(number).milliseconds() for number in range(times.size())}

    def look(self) -> ContextState:
        from py4j.protocol import Py4JJavaError

        try:
            return ContextState(self._java.awaitTerminationOrTimeout(0))
        except Py4JJavaError as error:
            return ContextState(False, _shown(error.java_exception.getMessage()))

    def fail(self, why: str) -> None:
        """Have `awaitTermination` raise."""
        self._scala.waiter().notifyError(self._jvm.org.apache.spark.SparkException(why))

    def stop(self) -> None:
        """Stop the streaming, at once, and leave the SparkContext. Returns when that is done."""
        self._java.stop(False, False)

    def report(self, stream: str, behind_ms: int, shards: int, lost: int) -> None:
        """Publish how far behind the stream is, for the driver's agent and others."""
        report = {"v": 1, "stream": stream, "behind_ms": behind_ms, "shards": shards, "lost": lost}
        self._jvm.java.lang.System.setProperty(REPORTS + stream, json.dumps(report))

    def forget(self, stream: str) -> None:
        self._jvm.java.lang.System.clearProperty(REPORTS + stream)


def _completed(info: Any) -> Completed:
    reasons = [each.failureReason() for each in info.outputOperationInfos().values()]
    failure = next((_shown(reason) for reason in reasons if reason), None)
    return Completed(info.batchTime().milliseconds(), info.processingDelay(), failure)


def _shown(reason: str | None) -> str:
    """The gist of an error: of a Python traceback the line below it."""
    lines = [line for line in (reason or "it is not said why").splitlines() if line.strip()]
    for number, line in enumerate(lines):
        if line.startswith("Traceback"):
            below = [each for each in lines[number + 1 :] if not each.startswith((" ", "\t"))]
            # What py4j says of an error in the JVM has the error itself on the next line.
            more = below[1:2] if below[1:2] and below[1].startswith(": ") else []
            return "".join(below[:1] + more) or lines[0]
    return lines[0]
