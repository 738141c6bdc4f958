"""Reads where the receivers of a DStreams application run."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dagster_sparkscale.driver.executors.guard import Pinned
from dagster_sparkscale.driver.settings import WRITE_AHEAD_LOG
from dagster_sparkscale.driver.spark.features import MOVES, PROCESSED, RECEIVERS
from dagster_sparkscale.driver.spark.graph import active_graph
from dagster_sparkscale.driver.spark.jvm import Jvm
from dagster_sparkscale.driver.spark.private import PrivateSpark
from dagster_sparkscale.driver.wire import Receiver, Relaunch

from . import moves
from .watch import TrackedReceiver


@dataclass(frozen=True)
class Receivers(Pinned):
    """The receivers of an application, and how they pin executors."""

    placed: Mapping[int, str | None] = field(default_factory=dict)
    """The executor of each receiver, by its stream id; None: it has run nowhere yet."""
    placements: tuple[TrackedReceiver, ...] | None = None
    """Each as its tracker has it; None: this Spark does not tell."""
    hosts: Mapping[str, str] = field(default_factory=dict)
    """The host of each executor that they may be started on, by its id."""
    told: tuple[Receiver, ...] = ()
    """What is told of each, without its rate."""
    relaunches: tuple[Relaunch, ...] = ()


NO_RECEIVERS = Receivers(placements=())


class ReceiverTracker:
    """Asks the tracker of the active StreamingContext, if the program has one. For one thread.

    Waits for two locks: that of `active_graph`, and the tracker's own, held while a graceful stop
    waits for the receivers.
    """

    def __init__(self, jvm: Jvm, private: PrivateSpark) -> None:
        self._jvm, self._private = jvm, private
        self._streaming: Any = None

    def look(self) -> Receivers | None:
        """None if this Spark does not tell."""
        self._streaming = streaming = active_graph(self._jvm, self._private)
        if streaming is None:
            return NO_RECEIVERS
        return self._private.use(RECEIVERS, lambda: self._allocated(streaming), None)

    def _allocated(self, streaming: Any) -> Receivers:
        placed = placed_receivers(self._jvm, streaming)
        pins = Counter(executor for executor in placed.values() if executor is not None)
        unplaced = len(placed) - pins.total()
        seen = Receivers(pins, total=len(placed), unplaced=unplaced, placed=placed)
        if not placed:
            return replace(seen, placements=())
        return self._private.use(MOVES, lambda: self._in_detail(seen), seen)

    def _in_detail(self, seen: Receivers) -> Receivers:
        return replace(
            seen,
            placements=moves.placements(self._jvm, self._tracker, list(seen.placed)),
            hosts=moves.executors(self._jvm, self._tracker),
        )

    @property
    def _tracker(self) -> Any:
        return self._streaming.scheduler().receiverTracker()

    @property
    def streaming(self) -> bool:
        """Whether there was a graph at the last look."""
        return self._streaming is not None

    def send(self, stream: int, host: str, executor: str) -> bool:
        """Send a receiver that was seen to an executor; returns whether this Spark can."""

        def sent() -> bool:
            moves.send(self._jvm, self._tracker, stream, host, executor)
            return True

        return self._private.use(MOVES, sent, False)

    def processed_until(self) -> float | None:
        """The time of the last batch that is through, seconds since the epoch; None: this Spark
        does not tell."""
        return self._private.use(PROCESSED, lambda: moves.processed_until(self._streaming), None)


def placed_receivers(jvm: Jvm, streaming: Any) -> dict[int, str | None]:
    """The executor of each receiver of a Scala StreamingContext, by its stream id, where it runs or
    ran last; None: it has run nowhere yet. Waits for the tracker's lock."""
    told = jvm.read(streaming.scheduler().receiverTracker().allocatedExecutors())
    return {int(stream): executor for stream, executor in told.items()}


@dataclass(frozen=True)
class ReceiverContext:
    """What moving receivers has to know of one SparkContext."""

    tracker: ReceiverTracker
    local: bool
    logged: bool
    """Whether receivers keep a write-ahead log: what they took survives their executor."""
    task_cpus: int
    scala: str


def bind(context: Any, private: PrivateSpark) -> ReceiverContext:
    """What is to be known of a pyspark SparkContext."""
    jvm = Jvm(context)
    conf = jvm.spark.conf()
    return ReceiverContext(
        tracker=ReceiverTracker(jvm, private),
        local=bool(jvm.spark.isLocal()),
        logged=bool(conf.getBoolean(WRITE_AHEAD_LOG, False)),
        task_cpus=max(1, int(conf.getInt("spark.task.cpus", 1))),
        scala=str(jvm.view.scala.util.Properties.versionNumberString()),
    )
