"""Where the receivers of a DStreams application run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .jvm import Jvm
from .private_spark import DSTREAMS, RECEIVERS, PrivateSpark
from .wire import Executor


@dataclass(frozen=True)
class Receivers:
    """Where the receivers run, from `org.apache.spark.streaming.scheduler.ReceiverTracker`."""

    per_executor: Mapping[str, int] = field(default_factory=dict)
    unplaced: int = 0
    """Receivers that run nowhere at the moment, as they do while they are being started."""
    placed: Mapping[int, str | None] = field(default_factory=dict)
    """The executor of each receiver, by its stream id; None: it runs nowhere at the moment."""


NO_RECEIVERS = Receivers()


def hosting(executors: Iterable[Executor], receivers: Receivers) -> tuple[Executor, ...]:
    """The executors, with how many receivers each one hosts."""
    return tuple(
        replace(executor, receivers=receivers.per_executor.get(executor.id, 0))
        for executor in executors
    )


def active_graph(jvm: Jvm, private: PrivateSpark) -> Any:
    """The Scala StreamingContext that is started and not stopped; None if there is none.

    Waits for a lock that `StreamingContext.start` holds until there is an executor.
    """
    graphs = jvm.view.org.apache.spark.streaming.StreamingContext
    found = private.use(DSTREAMS, lambda: graphs.getActive(), None)
    return found.get() if found is not None and found.isDefined() else None


class ReceiverTracker:
    """Reads the tracker of the active StreamingContext, if the program has one.

    Waits for two locks: that of `active_graph`, and the tracker's own, held while a graceful stop
    waits for the receivers.
    """

    def __init__(self, jvm: Jvm, private: PrivateSpark) -> None:
        self._jvm, self._private = jvm, private

    def look(self) -> Receivers | None:
        """None if this Spark does not tell."""
        streaming = active_graph(self._jvm, self._private)
        if streaming is None:
            return NO_RECEIVERS
        return self._private.use(RECEIVERS, lambda: self._allocated(streaming), None)

    def _allocated(self, streaming: Any) -> Receivers:
        placed = placed_receivers(self._jvm, streaming)
        per_executor: dict[str, int] = {}
        for executor in placed.values():
            if executor is not None:
                per_executor[executor] = per_executor.get(executor, 0) + 1
        return Receivers(
            per_executor, sum(executor is None for executor in placed.values()), placed
        )


def placed_receivers(jvm: Jvm, streaming: Any) -> dict[int, str | None]:
    """The executor of each receiver of a Scala StreamingContext, by its stream id; None: it runs
    nowhere at the moment. Waits for the tracker's lock."""
    told = jvm.read(streaming.scheduler().receiverTracker().allocatedExecutors())
    return {int(stream): executor for stream, executor in told.items()}
