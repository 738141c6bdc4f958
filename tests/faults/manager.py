"""A cluster manager in memory whose drivers are processes, and the way to it, which is faulty.

What is the library's own here: `submit`, `find`, `stop`, `end` and all that they are made of. What
is played: a store, processes, and what their agents answer.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dagster_sparkscale.clusters.agents.change import Change
from dagster_sparkscale.clusters.base import Driver, DriverState
from dagster_sparkscale.clusters.errors import (
    AgentUnreachable,
    ClusterError,
    LeaseLost,
    Superseded,
)
from dagster_sparkscale.clusters.fate import Fate, Observed, declared_gone
from dagster_sparkscale.clusters.launch.driver_options import Invocation
from dagster_sparkscale.clusters.records.leases import RENEW_EVERY, Lease, hold
from dagster_sparkscale.clusters.records.overtaking import Holder
from dagster_sparkscale.clusters.records.starts import EpochStart
from dagster_sparkscale.clusters.records.store import Process, Record
from dagster_sparkscale.clusters.spark_cluster import SparkCluster
from dagster_sparkscale.clusters.submitted import SubmittedDriver
from dagster_sparkscale.driver.operation_order import OutOfOrder
from dagster_sparkscale.observe.status import Limit, Status
from dagster_sparkscale.receivers.move import MoveReceiver
from dagster_sparkscale.state.change_state import ChangeState
from tests.fakes import QUERY
from tests.faults.processes import SOURCE, DriverProcess, Processes
from tests.faults.simulation import Lock, Simulation, current
from tests.faults.wrapping import AGENT, CLUSTER, DRIVER, STORE, Network, with_faults
from tests.in_memory.cluster import MemoryAgent, MemoryCluster, World
from tests.in_memory.driver import Kept
from tests.in_memory.store import MemoryStore

BETWEEN_READS = 0.5
"""Seconds between two reads of a record whose lease somebody else holds."""


@dataclass
class Place:
    """All that there is of a cluster, and the one way to it."""

    clock: Simulation
    network: Network
    world: World
    processes: Processes

    @cached_property
    def cluster(self) -> "PlayedCluster":
        """The cluster, as the library reaches it."""
        found: PlayedCluster = FaultyCluster(world=self.world.key)
        _PLACES[self.world.key] = self
        return found

    def forget(self) -> None:
        _PLACES.pop(self.world.key, None)


_PLACES: dict[str, Place] = {}
"""By the key of their world: Dagster copies resources."""


@dataclass
class PlayedStore(MemoryStore):
    """One that tells processes apart."""

    place: Place

    def process(self) -> Process:
        thread = current()
        assert thread is not None
        return Process("memory", thread.process.pid, thread.process.name)

    def swap(self, stream: str, record: Record) -> None:
        super().swap(stream, record)
        known = self.place.processes.submitted
        known.setdefault((stream, record.epoch), self.place.clock.now)

    def has_ended(self, process: Process) -> bool:
        # As on Kubernetes, where each run has a pod of its own: of others nothing is known.
        return False


@dataclass
class PlayedAgent(MemoryAgent):
    """The agent of one driver's process: keeps the order of operations, as a real one does."""

    place: Place

    def status(self, timeout: float = 5.0, window: float | None = None) -> Status:
        it = self._process()
        self.place.processes.see(it)
        kept = self._answering()
        _step(kept, self.world)
        kept.limits = (_limit(kept),)
        return super().status(timeout, window)

    def change(self, change: Change, timeout: float = 10.0, operation: int | None = None) -> Status:
        it = self._process()
        self._admit(it, operation)
        if isinstance(change, MoveReceiver) and _is_there(it.kept, change):
            return self.status()
        if isinstance(change, MoveReceiver):
            it.moves.append((change.stream_id, change.executor, operation))
        if isinstance(change, ChangeState):
            self.place.processes.change_state(it, change.plan)
            return self.status()
        super().change(change, timeout, operation)
        return self.status()

    def stop(
        self, graceful: bool, patience: float, timeout: float = 10.0, operation: int | None = None
    ) -> None:
        it = self._process()
        self._admit(it, operation)
        self.place.processes.stop(it, graceful)

    def _admit(self, it: DriverProcess, operation: int | None) -> None:
        try:
            it.order.admit(operation)
        except OutOfOrder as error:
            raise Superseded(str(error)) from None

    def _process(self) -> DriverProcess:
        it = self.place.processes.of(self.driver.stream, self.driver.epoch)
        if it is None or not it.works:
            raise AgentUnreachable(f"the agent of driver {self.driver.epoch} is not there")
        return it

    def _answering(self) -> Kept:
        return self._process().kept


def _step(kept: Kept, world: World) -> None:
    """All executors that there is room for have come by the next look."""
    while kept.registered < kept.requested and world.free_cores >= kept.executor_cores:
        kept.registered += 1


def _limit(kept: Kept) -> Limit:
    rate = (kept.rates.get(SOURCE) or {}).get("maxRate")
    by = "nobody" if rate is None else "set"
    return Limit(SOURCE, QUERY, rate, by, taken=None if rate is None else True)


def _is_there(kept: Kept, move: MoveReceiver) -> bool:
    """Whether a receiver is there, or on its way there: a real agent takes no note of it then."""
    found = [each for each in kept.receivers or () if each.stream_id == move.stream_id]
    return any(move.executor in (each.executor, each.moving_to) for each in found)


FaultyStore = with_faults(STORE, PlayedStore, lambda store: store.place.network)
FaultyAgent = with_faults(AGENT, PlayedAgent, lambda agent: agent.place.network)


class PlayedDriver(SubmittedDriver):
    """The newest submission of a stream: a process, which is looked at and killed."""

    def __init__(self, stream: str, record: Record, place: Place) -> None:
        super().__init__(stream, record)
        self.place = place

    @property
    def _it(self) -> DriverProcess | None:
        return self.place.processes.of(self.stream, self.record.epoch)

    def look(self) -> Observed:
        it, gone = self._it, declared_gone(self.record)
        if gone is not None:
            return Observed(gone)
        where = f"memory process {self.record.epoch}"
        if it is None:
            # As a pod that is not there: it may be launched yet, for as long as that may take, by
            # the clock of who looks.
            if abs(time.time() - self.record.submitted_at) < LAUNCHED_WITHIN:
                return Observed(Fate(DriverState.STARTING), where)
            return Observed(Fate(DriverState.FAILED, reason="it was never launched"), where)
        if it.phase == "ended":
            fate = Fate(DriverState.FAILED, ended_at=it.ended_at, reason=it.reason)
            return Observed(fate, where, stopped=it.stopped, fenced=it.fenced)
        if not it.works:
            return Observed(Fate(DriverState.STARTING), where)
        return Observed(Fate(DriverState.RUNNING), where, it.kept.driver.agent_url)

    def agent(self) -> Any:
        return self.place.cluster.agent(Driver(self.stream, self.record.epoch, *_RUNS))

    def log(self, lines: int) -> str:
        return "the end of its log"

    def kill(self) -> None:
        it = self._it
        if it is not None:
            self.place.processes.end(it, "killed by who ended it")

    def clear(self) -> None:
        for it in self.place.processes.all:
            mine = it.stream == self.stream and it.epoch <= self.record.epoch
            if mine and it.phase != "ended":
                self.place.processes.end(it, "cleared away")


_RUNS: tuple[Any, ...] = (DriverState.RUNNING, 0.0)
LAUNCHED_WITHIN = 15.0
"""Seconds after which a driver that is not there counts as not launched, as on Kubernetes. Who was
held up may launch it later all the same."""
FaultyDriver = with_faults(DRIVER, PlayedDriver, lambda driver: driver.place.network)


class PlayedCluster(MemoryCluster):
    """The cluster manager itself: finds and ends drivers by what they are."""

    @property
    def _place(self) -> Place:
        return _PLACES[self.world]

    def store(self) -> Any:
        world = self._world
        return FaultyStore(world.records, world.claims, world.swapping, self._place)

    def lease(
        self, stream: str, holder: Holder, wait: float = 0.0
    ) -> AbstractContextManager[Lease]:
        return hold(
            *(self.store(), stream, holder, wait),
            every=BETWEEN_READS,
            keeping=_kept,
            clock=lambda: self._place.clock.now,
            sleep=self._place.clock.sleep,
        )

    def driver_of(self, stream: str, record: Record) -> Any:
        return FaultyDriver(stream, record, self._place)

    def launching(self, call: Invocation) -> Callable[[EpochStart], None]:
        thread = current()
        assert thread is not None
        by = thread.process.name
        return lambda start: self._place.processes.launch(call, start, by)

    def took(self, stream: str, epoch: int) -> bool:
        it = self._place.processes.of(stream, epoch)
        fenced = it is not None and it.fenced is not None
        return (stream, epoch) in self._place.processes.took and not fenced

    def agent(self, driver: Driver) -> Any:
        return FaultyAgent(self._world, driver, self._place)

    def logs(self, driver: Driver, lines: int = 50) -> str:
        record = self.store().read(driver.stream)
        return "" if record is None else str(self.driver_of(driver.stream, record).log(lines))

    find = SparkCluster.find
    end = SparkCluster.end


FaultyCluster = with_faults(CLUSTER, PlayedCluster, lambda cluster: cluster._place.network)


@contextmanager
def _kept(lease: Lease) -> Iterator[None]:
    """Renew a lease, as a thread of its process does."""
    thread = current()
    assert thread is not None
    world, over = thread.world, False
    lease._lock = Lock(world)  # type: ignore[assignment]

    def keep() -> None:
        while True:
            world.sleep(RENEW_EVERY)
            if over:
                return
            try:
                lease.renew()
            except LeaseLost:
                return
            except ClusterError:
                continue  # it may be renewed yet

    world.begin_thread(thread.process, keep)
    try:
        yield
    finally:
        over = True
