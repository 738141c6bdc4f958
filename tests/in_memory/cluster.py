"""A cluster manager in memory, for tests of the Dagster side.

It keeps the contract of `clusters/base.py` as far as `tests/clusters/base_contract.py` has it:
epochs only grow, a lease is held by one operation at a time and needed for every change, one driver
a stream. Executors arrive one a look and only as far as the cores go. There is no Spark in it; what
real clusters do is tested on real clusters. A test that needs a driver of which nothing can be told
makes it `UNKNOWN`.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from dagster_sparkscale.clusters.agents.change import Change, SetExecutors
from dagster_sparkscale.clusters.base import Driver, DriverState
from dagster_sparkscale.clusters.capacity import Capacity, Free
from dagster_sparkscale.clusters.errors import AgentRefused, AgentUnreachable, NotMet
from dagster_sparkscale.clusters.fate import Observed
from dagster_sparkscale.clusters.launch.driver_options import Invocation
from dagster_sparkscale.clusters.records.leases import Lease, hold
from dagster_sparkscale.clusters.records.overtaking import Holder
from dagster_sparkscale.clusters.records.starts import EpochStart
from dagster_sparkscale.clusters.records.store import Claim, Record
from dagster_sparkscale.clusters.spark_cluster import SparkCluster
from dagster_sparkscale.clusters.submitted import SubmittedDriver
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.in_force.live_limits import SetRates
from dagster_sparkscale.in_force.parts import pinned, remembered_settings
from dagster_sparkscale.observe.status import Relaunch, Status
from dagster_sparkscale.receivers.move import MoveReceiver
from dagster_sparkscale.state.change_state import ChangeState
from tests.in_memory.driver import Kept, status_of
from tests.in_memory.store import MemoryStore


@dataclass
class World:
    """Everything behind the cluster manager, for tests to arrange and to look at."""

    cores: int = 1000
    master_answers: bool = True
    granted: dict[str, int] = field(default_factory=dict)
    """Cores that the master says an application has been given, by its id."""
    streams: dict[str, Kept] = field(default_factory=dict)
    records: dict[str, Record] = field(default_factory=dict)
    claims: dict[str, Claim] = field(default_factory=dict)
    swapping: threading.Lock = field(default_factory=threading.Lock)
    calls: list[str] = field(default_factory=list)
    numbers: list[int | None] = field(default_factory=list)
    """Fencing numbers of the operations that have asked an agent for a change."""
    leased: list[tuple[str, float]] = field(default_factory=list)
    """Who has asked for a lease, and how many seconds they would have waited for it."""
    on_submit: Callable[[Kept], None] = lambda kept: None
    """Called with a driver that was just launched: makes it crash, hang, ..."""
    on_look: Callable[[Kept], None] = lambda kept: None
    """Called before each answer of an agent: time passes here and nowhere else."""
    on_find: Callable[[str], None] = lambda stream: None
    on_prepare: Callable[[], None] = lambda: None
    on_check: Callable[[Stream], None] = lambda stream: None
    on_plan: Callable[[Kept, str], None] = lambda kept, id: None
    """Called with a driver that has taken a plan to be carried out in place, and the plan's id."""
    on_wait: Callable[[str], None] = lambda stream: None
    """Called with a stream whose lease is waited for: whoever holds it may give it back here."""

    def __post_init__(self) -> None:
        self.key = str(id(self))
        _WORLDS[self.key] = self

    @property
    def cluster(self) -> "MemoryCluster":
        return MemoryCluster(world=self.key)

    @property
    def leases(self) -> set[str]:
        """Streams whose lease is held."""
        return {name for name, record in self.records.items() if record.lease is not None}

    @property
    def free_cores(self) -> int:
        return self.cores - sum(k.registered * k.executor_cores for k in self.streams.values())

    def run(self, stream: Stream, executors: int = 2, **fields: Any) -> Kept:
        """A driver of `stream` that runs with this many executors."""
        with self.cluster.lease(stream.name, "test") as lease:
            self.submit(stream, lease)
        kept = self.streams[stream.name]
        kept.registered = kept.requested = executors
        for name, value in fields.items():
            setattr(kept, name, value)
        return kept

    def submit(self, stream: Stream, lease: Lease) -> Driver:
        """Start a driver with what is remembered of the stream's parts, as a start does."""
        record = lease.record
        settings = remembered_settings(stream, record)
        return self.cluster.submit(stream, lease, settings=settings, pinned=pinned(stream, record))

    def end(self, stream: str, state: DriverState = DriverState.FAILED, **fields: Any) -> Driver:
        """End the stream's driver."""
        kept = self.streams[stream]
        plain: dict[str, Any] = {"ended_at": time.time(), "exit_reason": "exit code 1"}
        kept.driver = replace(kept.driver, state=state, agent_url=None, **plain | fields)
        kept.registered = kept.requested = 0
        return kept.driver


_WORLDS: dict[str, World] = {}


class MemoryCluster(SparkCluster):
    """Dagster copies resources, so what it holds is looked up by `world`."""

    world: str

    @property
    def _world(self) -> World:
        return _WORLDS[self.world]

    def store(self) -> "MemoryStore":
        world = self._world
        return MemoryStore(world.records, world.claims, world.swapping)

    def lease(
        self, stream: str, holder: Holder, wait: float = 0.0
    ) -> AbstractContextManager[Lease]:
        self._world.leased.append((str(holder), wait))

        def sleep(seconds: float) -> None:
            self._world.on_wait(stream)
            time.sleep(seconds)

        return hold(self.store(), stream, holder, wait, keeping=_unkept, sleep=sleep)

    def driver_of(self, stream: str, record: Record) -> "MemoryDriver":
        return MemoryDriver(stream, record, self)

    def program_of(self, stream: Stream) -> str:
        return stream.program

    def launching(self, call: Invocation) -> Callable[[EpochStart], None]:
        def launch(start: EpochStart) -> None:
            world, name, epoch = self._world, call.stream.name, start.record.epoch
            world.streams[name] = kept = Kept(
                driver=Driver(
                    name,
                    epoch,
                    DriverState.RUNNING,
                    start.record.submitted_at,
                    agent_url=f"http://memory/{name}/{epoch}",
                    ui_url=f"http://memory/{name}/ui",
                    app_id=f"app-{epoch}",
                    where=f"memory process {epoch}",
                ),
                requested=start.record.executors or 0,
                executor_cores=call.stream.executor_cores,
                settings=dict(call.settings or {}),
                rates=dict(start.record.rates or {}),
            )
            world.calls.append(f"submit {name} {epoch}")
            world.on_submit(kept)

        return launch

    def took(self, stream: str, epoch: int) -> bool:
        return True

    def find(self, stream: str) -> Driver | None:
        self._world.on_find(stream)
        return self.known(stream)

    def known(self, stream: str) -> Driver | None:
        kept, record = self._world.streams.get(stream), self.store().read(stream)
        if kept is None or record is None:
            return None
        driver = replace(
            kept.driver,
            declared=record.declared,
            hold=record.hold,
            asked_to_stop_at=record.asked_to_stop_at,
            restarted_at=record.restarted_at,
            cause=record.cause,
            record=record,
        )
        if record.gone == driver.epoch and driver.state is DriverState.UNKNOWN:
            reason = f"declared gone by {record.gone_by}"
            return replace(driver, state=DriverState.FAILED, exit_reason=reason)
        return driver

    def agent(self, driver: Driver) -> "MemoryAgent":
        return MemoryAgent(self._world, driver)

    def end(self, driver: Driver, lease: Lease, graceful: bool, timeout: float) -> Driver:
        self._end(driver, lease, graceful, timeout)
        lease.check(driver.stream)
        ended = self.known(driver.stream)
        assert ended is not None
        return ended

    def _end(self, driver: Driver, lease: Lease, graceful: bool, timeout: float) -> None:
        kept = self._world.streams[driver.stream]
        how = "gracefully" if graceful else "at once"
        self._world.calls.append(f"stop {driver.stream} {how}")
        if graceful and kept.ends_after > timeout:
            self._world.calls.append(f"kill {driver.stream}")
        told = {"drained": kept.drained}
        if kept.drained is not None:
            told["ending"] = "drained" if kept.drained else "cut"
        if not kept.driver.state.alive:
            if kept.driver.state is DriverState.FAILED and lease.record.desired == "stopped":
                why = f"{kept.driver.exit_reason}, before it was asked to stop"
                kept.driver = replace(kept.driver, state=DriverState.STOPPED, exit_reason=why)
        elif lease.record.desired == "restarting":
            why = "exit code 0, and the restart that stopped it was not completed"
            self._world.end(driver.stream, exit_reason=why, **told)
        else:
            why = "stop requested"
            self._world.end(driver.stream, DriverState.STOPPED, exit_reason=why, **told)

    def check(self, stream: Stream) -> None:
        self._world.calls.append("check")
        self._world.on_check(stream)

    def logs(self, driver: Driver, lines: int = 50) -> str:
        kept = self._world.streams[driver.stream]
        return "\n".join(kept.log[-lines:]) if kept.driver.epoch == driver.epoch else ""

    def capacity(self) -> Capacity | None:
        world = self._world
        if not world.master_answers:
            return None
        free = (Free(world.free_cores, 2.0**20),)
        return Capacity(
            *(world.cores, world.free_cores, 1, (f"{world.cores} cores",), free), world.granted
        )

    def prepare(self) -> None:
        self._world.calls.append("prepare")
        self._world.on_prepare()


class MemoryDriver(SubmittedDriver):
    """A driver of which all is known at once.

    `MemoryCluster` describes and ends it: nothing looks at a process of it, or kills one.
    """

    def __init__(self, stream: str, record: Record, cluster: MemoryCluster) -> None:
        super().__init__(stream, record)
        self._cluster = cluster

    def describe(self) -> Driver:
        known = self._cluster.known(self.stream)
        record = self.record
        return known or Driver(self.stream, record.epoch, DriverState.STOPPED, record.submitted_at)

    def await_agent(self, seconds: float) -> Driver:
        return self.describe()

    def look(self) -> Observed:
        raise AssertionError("a driver in memory is described by its cluster: `describe`")

    def agent(self) -> "MemoryAgent":
        return self._cluster.agent(self.describe())

    def log(self, lines: int) -> str:
        return self._cluster.logs(self.describe(), lines)

    def kill(self) -> None:
        raise AssertionError("a driver in memory is ended by its cluster: `MemoryCluster.end`")

    def clear(self) -> None: ...


@contextmanager
def _unkept(lease: Lease) -> Iterator[None]:
    yield


def _send(kept: Kept, stream_id: int, executor: str, operation: int | None) -> None:
    """A receiver is on its way; `World.on_look` is where it arrives."""
    assert kept.receivers is not None
    was = next(each for each in kept.receivers if each.stream_id == stream_id)
    kept.receivers = tuple(
        replace(each, executor=None, moving_to=executor) if each == was else each
        for each in kept.receivers
    )
    left = Relaunch(
        *(stream_id, "move", was.executor, time.time()), wanted=executor, operation=operation
    )
    kept.relaunches = (*kept.relaunches, left)


@dataclass
class MemoryAgent:
    world: World
    driver: Driver

    def status(self, timeout: float = 5.0, window: float | None = None) -> Status:
        self.world.on_look(self.world.streams[self.driver.stream])
        kept = self._answering()
        if kept.registered > kept.requested:
            kept.registered -= 1
        elif kept.registered < kept.requested and self.world.free_cores >= kept.executor_cores:
            kept.registered += 1
        return status_of(kept)

    def change(self, change: Change, timeout: float = 10.0, operation: int | None = None) -> Status:
        kept = self._answering()
        if isinstance(change, SetExecutors) and change.target < 0:
            raise AgentRefused(f"target = {change.target}: must not be negative")
        self.world.numbers.append(operation)
        match change:
            case SetExecutors(target):
                kept.requested = target
                self.world.calls.append(f"scale {self.driver.stream} {target}")
            case SetRates(rates):
                kept.rates = dict(rates)
                self.world.calls.append(f"limits {self.driver.stream} {json.dumps(rates)}")
            case MoveReceiver(stream_id, executor):
                self.world.calls.append(f"move {self.driver.stream} {stream_id} {executor}")
                _send(kept, stream_id, executor, operation)
            case ChangeState(plan):
                if kept.refuses_plans is not None:
                    raise NotMet(f"the agent refused: {kept.refuses_plans}")
                self.world.calls.append(f"change {self.driver.stream} {plan.id} {plan.partitions}")
                kept.asked = change
                self.world.on_plan(kept, plan.id)
        return status_of(kept)

    def _answering(self) -> Kept:
        driver = self.driver
        kept = self.world.streams[driver.stream]
        if kept.refuses:
            raise AgentRefused(kept.refuses)
        if kept.driver.epoch != driver.epoch or not kept.driver.agent_url:
            raise AgentUnreachable(
                f"the agent of {driver.stream!r}, driver {driver.epoch}, is not there"
            )
        if not kept.reachable:
            raise AgentUnreachable(f"the agent of driver {driver.epoch} does not answer")
        return kept
