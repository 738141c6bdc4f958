"""Where the receivers of a DStreams application run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .jvm import Jvm
from .private_spark import RECEIVERS, PrivateSpark
from .wire import Executor


@dataclass(frozen=True)
class Receivers:
    """Where the receivers run, from `org.apache.spark.streaming.scheduler.ReceiverTracker`."""

    per_executor: Mapping[str, int] = field(default_factory=dict)
    unplaced: int = 0
    """Receivers that run nowhere at the moment, as they do while they are being started."""


NO_RECEIVERS = Receivers()


def hosting(executors: Iterable[Executor], receivers: Receivers) -> tuple[Executor, ...]:
    """The executors, with how many receivers each one hosts."""
    return tuple(
        replace(executor, receivers=receivers.per_executor.get(executor.id, 0))
        for executor in executors
    )


class ReceiverTracker:
    """Reads the tracker of the active StreamingContext, if the program has one.

    It takes two locks: one that `StreamingContext.start` holds until there is an executor, and the
    tracker's own, held while a graceful stop waits for the receivers.
    """

    def __init__(self, jvm: Jvm, private: PrivateSpark) -> None:
        self._jvm, self._private = jvm, private

    def look(self) -> Receivers | None:
        """None if this Spark does not tell."""
        found = self._jvm.view.org.apache.spark.streaming.StreamingContext.getActive()
        if not found.isDefined():
            return NO_RECEIVERS
        return self._private.use(RECEIVERS, lambda: self._allocated(found.get()), None)

    def _allocated(self, streaming: Any) -> Receivers:
        allocated = self._jvm.read(streaming.scheduler().receiverTracker().allocatedExecutors())
        per_executor: dict[str, int] = {}
        for executor in allocated.values():
            if executor is not None:
                per_executor[executor] = per_executor.get(executor, 0) + 1
        return Receivers(per_executor, sum(executor is None for executor in allocated.values()))
