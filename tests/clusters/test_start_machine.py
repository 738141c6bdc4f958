"""Starts, stops and recoveries of two Dagsters, in any order, cut off and held up anywhere.

What is real here: the lease, the way of a start through the store, `reconcile`, `stop` and the
decisions on recovery. What is simulated: the store's atoms (each read and each swap is a moment at
which anything else may happen), the processes (who launches, supervisors, drivers, on two hosts
that can't see each other's), the steady clock and the wall's.

Never two drivers on one checkpoint; no epoch goes back; and when all who were at it are dead, a
stream runs, was asked to stop, or says why it does not.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    precondition,
    rule,
)

from dagster_sparkscale.clusters import leases
from dagster_sparkscale.clusters.base import Capacity, ClusterManager, Driver, DriverState
from dagster_sparkscale.clusters.errors import AgentUnreachable, AlreadyRunning, ClusterError
from dagster_sparkscale.clusters.leases import LEASE_SECONDS, Lease
from dagster_sparkscale.clusters.starts import Others, begin, refuse_if_held
from dagster_sparkscale.clusters.store import Claim, Conflict, Process, Record
from dagster_sparkscale.declare.policies import RecoveryPolicy
from dagster_sparkscale.declare.streams import Stream
from dagster_sparkscale.lifecycle import reconcile as reconcile_module
from dagster_sparkscale.lifecycle.reconcile import reconcile
from dagster_sparkscale.lifecycle.recovery import Restart, recover
from tests.fakes import structured

CHECKPOINT = "file:///data/clicks"
STREAMS = {name: structured(name, checkpoint_location="/data/clicks") for name in ("old", "new")}
HOSTS = ("h1", "h2")
POLICY = RecoveryPolicy(first_delay=1, longest_delay=1, limit=20, within=3600)


class Crashed(BaseException):
    """The process is dead: nothing of it runs any more, not even what cleans up."""


class Operation:
    """A process that does one thing, a step at a time."""

    def __init__(self, world: "World", host: str, act: Callable[["Side"], Any]) -> None:
        world.pids += 1
        self.process = Process(host, world.pids, "b", "m" + host, "boot" + host, "ns")
        self.world = world
        self.dead = self.done = False
        self.lease: Lease | None = None
        self._arrived, self._go = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, args=(act,), daemon=True)
        self._thread.start()
        self._arrived.acquire()

    def _run(self, act: Callable[["Side"], Any]) -> None:
        _current.operation = self
        with suppress(Crashed, ClusterError):
            self.pause()
            act(Side(self))
        self.done = True
        self._arrived.release()

    def pause(self) -> None:
        """A moment at which anything may happen before this goes on."""
        self._arrived.release()
        self._go.acquire()
        if self.dead:
            raise Crashed

    def step(self) -> None:
        if not self.done:
            self._go.release()
            self._arrived.acquire()

    def crash(self) -> None:
        self.dead = True
        while not self.done:
            self.step()

    @property
    def alive(self) -> bool:
        return not (self.dead or self.done)

    def renew(self) -> None:
        """What the thread does that keeps its lease."""
        lease = self.lease
        if self.alive and lease is not None and lease._lock.acquire(blocking=False):
            try:
                with suppress(ClusterError):
                    lease.renew()
            finally:
                lease._lock.release()


class _Current(threading.local):
    operation: Operation | None = None


_current = _Current()


def moment() -> None:
    if _current.operation is not None:
        _current.operation.pause()


@dataclass
class Launched:
    """A supervisor and its driver."""

    stream: str
    epoch: int
    host: str
    phase: str = "spawned"
    """`spawned`, `looked` (at the record, and may start), `alive`, `ended`."""
    ended_at: float | None = None

    def end(self, at: float) -> None:
        if self.phase != "ended":
            self.phase, self.ended_at = "ended", at


@dataclass
class World:
    now: float = 1000.0
    wall: float = 1e9
    pids: int = 0
    records: dict[str, Record] = field(default_factory=dict)
    claims: dict[str, Claim] = field(default_factory=dict)
    folders: set[tuple[str, int]] = field(default_factory=set)
    launched: dict[tuple[str, int], Launched] = field(default_factory=dict)
    operations: list[Operation] = field(default_factory=list)
    reachable: bool = True
    """Whether agents are reached from the other host."""

    def process_lives(self, process: Process | None) -> bool:
        return any(o.process == process and o.alive for o in self.operations)

    def look(self, it: Launched) -> None:
        """What a supervisor does first of all."""
        record = self.records[it.stream]
        wanted = (record.epoch, record.desired) == (it.epoch, "running")
        if wanted and record.gone != it.epoch:
            it.phase = "looked"
        else:
            it.end(self.wall)


class Side(ClusterManager):
    """What one process of one Dagster can see and do."""

    def __init__(self, operation: Operation) -> None:
        super().__init__()
        object.__setattr__(self, "_operation", operation)
        object.__setattr__(self, "_world", operation.world)

    # The store.

    def store(self) -> Any:
        return self

    def streams(self) -> list[str]:
        return sorted(self._world.records)

    def read(self, stream: str) -> Record | None:
        moment()
        return self._world.records.get(stream)

    def swap(self, stream: str, record: Record) -> None:
        moment()
        _swap(self._world.records, stream, record)
        moment()  # it may die before it knows

    def claim(self, checkpoint: str) -> Claim | None:
        moment()
        return self._world.claims.get(checkpoint)

    def swap_claim(self, claim: Claim) -> None:
        moment()
        _swap(self._world.claims, claim.checkpoint, claim)
        moment()

    def new_id(self) -> str:
        return f"id{self._operation.process.pid}"

    def process(self) -> Process:
        return self._operation.process

    def has_ended(self, process: Process) -> bool:
        return process.host == self._host and not self._world.process_lives(process)

    # The cluster.

    @property
    def _host(self) -> str:
        return self._operation.process.host

    def lease(self, stream: str, holder: str, wait: float = 0.0) -> AbstractContextManager[Lease]:
        @contextmanager
        def keeping(lease: Lease) -> Iterator[None]:
            before, self._operation.lease = self._operation.lease, lease
            yield
            self._operation.lease = before

        return leases.hold(
            self,
            stream,
            holder,
            wait,
            keeping=keeping,
            clock=lambda: self._world.now,
            sleep=lambda seconds: moment(),
        )

    def submit(self, stream: Stream, lease: Lease, cause: str = "manual") -> Driver:
        lease.check(stream.name)
        refuse_if_held(stream.name, lease.record)
        before = self._describe(stream.name, lease.record)
        if before is not None and before.state.alive:
            raise AlreadyRunning(str(before))
        start = begin(
            self,
            lease,
            Others(self._who_runs, lambda name: self.lease(name, lease.holder, 5.0)),
            cause=cause,
            checkpoint=CHECKPOINT,
            declared={},
        )
        key = (stream.name, start.record.epoch)
        moment()
        if key in self._world.folders:
            raise ClusterError("its folder is there already")
        self._world.folders.add(key)
        moment()
        self._world.launched[key] = Launched(*key, self._host)
        moment()
        driver = self._describe(stream.name, start.record)
        assert driver is not None
        return driver

    def _who_runs(self, stream: str) -> str | None:
        driver = self.find(stream)
        return driver.where if driver is not None and driver.state.alive else None

    def find(self, stream: str) -> Driver | None:
        record = self.read(stream)
        moment()
        return None if record is None else self._describe(stream, record)

    def _describe(self, stream: str, record: Record) -> Driver | None:
        if not record.epoch:
            return None
        it = self._world.launched.get((stream, record.epoch))
        state = self._state(record, it)
        if state is DriverState.FAILED and record.desired == "stopped":
            state = DriverState.STOPPED
        ended = it.ended_at if it is not None else None
        return Driver(stream, record.epoch, state, record.submitted_at, ended_at=ended, where="?")

    def _state(self, record: Record, it: Launched | None) -> DriverState:
        if (it is not None and it.phase == "ended") or record.gone == record.epoch:
            return DriverState.FAILED
        if record.host != self._host:
            answers = it is not None and it.phase == "alive" and self._world.reachable
            return DriverState.RUNNING if answers else DriverState.UNKNOWN
        if it is not None:
            return DriverState.RUNNING if it.phase == "alive" else DriverState.STARTING
        lives = self._world.process_lives(record.submitter)
        return DriverState.STARTING if lives else DriverState.FAILED

    def agent(self, driver: Driver) -> Any:
        raise AgentUnreachable("agents are not asked here")

    def end(self, driver: Driver, lease: Lease, graceful: bool, timeout: float) -> Driver:
        moment()
        lease.check()
        record = lease.record
        it = self._world.launched.get((driver.stream, record.epoch))
        if it is not None and it.phase != "ended":
            agrees = it.phase == "alive" and self._world.reachable
            if it.host != self._host and not agrees:
                raise ClusterError("out of reach")
            it.end(self._world.wall)
        moment()
        ended = self._describe(driver.stream, lease.record)
        assert ended is not None
        if ended.state.alive:
            raise ClusterError("its launcher may launch it yet")
        return ended

    def logs(self, driver: Driver, lines: int = 50) -> str:
        return ""

    def capacity(self) -> Capacity | None:
        return None


def _swap(kept: dict[str, Any], key: str, value: Any) -> None:
    before = kept.get(key)
    if (before.revision if before else 0) != value.revision - 1:
        raise Conflict(key)
    kept[key] = value


def start(stream: str, **how: Any) -> Callable[[Side], Any]:
    return lambda side: reconcile(side, STREAMS[stream], holder="start", lease_wait=60.0, **how)


def stop(stream: str) -> Callable[[Side], Any]:
    def act(side: Side) -> None:
        with side.lease(stream, "stop", 60.0) as lease:
            driver = side.find(stream)
            if driver is not None:
                side.stop(driver, lease)

    return act


def gone(stream: str) -> Callable[[Side], Any]:
    def act(side: Side) -> None:
        with side.lease(stream, "gone", 60.0) as lease:
            driver = side.find(stream)
            # A person has made certain that neither supervisor nor driver is there; of who was
            # held up before he launched one, nobody knows.
            it = driver and side._world.launched.get((stream, driver.epoch))
            if driver is not None and (it is None or it.phase == "ended"):
                side.declare_gone(driver, lease, "somebody")

    return act


def recovery(stream: str) -> Callable[[Side], Any]:
    """What the sensor does with a failed driver."""

    def act(side: Side) -> None:
        driver = side.find(stream)
        if driver is not None and driver.state is DriverState.FAILED:
            record = side.read(stream)
            assert record is not None
            decision = recover(POLICY, driver, record.history, side._world.wall)
            if isinstance(decision, Restart):
                start(stream, cause="recovery", failed_epoch=driver.epoch)(side)

    return act


@dataclass(frozen=True)
class Deed:
    """What is done, to which stream, from where."""

    what: str
    stream: str
    host: str


ACTS: dict[str, Callable[[str], Callable[[Side], Any]]] = {
    "start": start,
    "restart": lambda stream: start(stream, restart=True),
    "stop": stop,
    "recover": recovery,
    "declare gone": gone,
}
deeds = st.builds(
    Deed, st.sampled_from(sorted(ACTS)), st.sampled_from(sorted(STREAMS)), st.sampled_from(HOSTS)
)


class Starts(RuleBasedStateMachine):
    operations = Bundle("operations")

    @initialize(before=st.sampled_from(["nothing", "a driver", "one that has ended"]))
    def begin(self, before: str) -> None:
        self.world = World()
        self.epochs = dict.fromkeys(STREAMS, 0)
        self.stops: set[str] = set()
        self.patches = [
            patch("time.time", lambda: self.world.wall),
            # What a program does once it was launched is another matter.
            patch.object(
                reconcile_module, "_wait_for_first_query", lambda _, driver, until: (driver, None)
            ),
        ]
        for each in self.patches:
            each.start()

    def _begin(self, host: str, act: Callable[[Side], Any]) -> Operation:
        operation = Operation(self.world, host, act)
        self.world.operations.append(operation)
        return operation

    def _act(self, deed: Deed) -> Operation:
        if deed.what == "stop":
            self.stops.add(deed.stream)
        return self._begin(deed.host, ACTS[deed.what](deed.stream))

    def _run(self, operation: Operation, steps: int) -> None:
        for _ in range(steps):
            operation.step()
            self.check()

    @rule(target=operations, deed=deeds)
    def begin_one(self, deed: Deed) -> Operation:
        return self._act(deed)

    @rule(
        target=operations,
        held_up=deeds,
        after=st.integers(0, 20),
        meanwhile=st.one_of(
            st.sampled_from([("start",), ("declare gone", "start"), ("stop", "start")]),
            st.lists(st.sampled_from(sorted(ACTS)), min_size=1, max_size=3),
        ),
        stream=st.sampled_from(sorted(STREAMS)),
        host=st.sampled_from(HOSTS),
        lost=st.booleans(),
        launched=st.booleans(),
    )
    def one_is_held_up_while_others_do_all_they_want(
        self,
        held_up: Deed,
        after: int,
        meanwhile: Sequence[str],
        stream: str,
        host: str,
        lost: bool,
        launched: bool,
    ) -> Operation:
        operation = self._act(held_up)
        self._run(operation, after)
        if lost:
            self.the_lease_is_lost(held_up.stream)
        else:
            self.time_passes(LEASE_SECONDS)
        for what in meanwhile:
            other = self._act(Deed(what, stream, host))
            self._run(other, 20)
            self.time_passes(LEASE_SECONDS)  # by now it has waited long enough for the first
            self._run(other, 60)
            if launched:
                self.supervisors_go_on()
        return operation

    @rule()
    def supervisors_go_on(self) -> None:
        for it in self.world.launched.values():
            self._go_on(it)
            self._go_on(it)
            self.check()

    @rule(operation=operations, steps=st.integers(1, 12))
    def go_on(self, operation: Operation, steps: int) -> None:
        self._run(operation, steps)

    @rule(operation=consumes(operations))
    def finish(self, operation: Operation) -> None:
        self._run(operation, 80)

    @rule(operation=consumes(operations))
    def crash(self, operation: Operation) -> None:
        operation.crash()

    @rule(operation=operations)
    def renew(self, operation: Operation) -> None:
        operation.renew()

    @rule(seconds=st.sampled_from([1.0, LEASE_SECONDS / 2, LEASE_SECONDS, 3600.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.now += seconds
        self.world.wall += seconds

    @rule(seconds=st.sampled_from([-8 * 3600.0, 8 * 3600.0]))
    def the_wall_clock_jumps(self, seconds: float) -> None:
        self.world.wall += seconds

    @precondition(lambda self: self.world.records)
    @rule(stream=st.sampled_from(sorted(STREAMS)))
    def the_lease_is_lost(self, stream: str) -> None:
        record = self.world.records.get(stream)
        if record is not None:
            changed = replace(record, lease=None, revision=record.revision + 1)
            self.world.records[stream] = changed

    @rule()
    def the_network_breaks_or_is_mended(self) -> None:
        self.world.reachable = not self.world.reachable

    @precondition(lambda self: self.world.launched)
    @rule(which=st.integers(0, 30))
    def a_supervisor_goes_on(self, which: int) -> None:
        there = list(self.world.launched.values())
        self._go_on(there[-1 - which % len(there)])

    def _go_on(self, it: Launched) -> None:
        if it.phase == "spawned":
            self.world.look(it)
        elif it.phase == "looked":
            it.phase = "alive"

    @precondition(lambda self: self.world.launched)
    @rule(which=st.integers(0, 30))
    def a_driver_dies(self, which: int) -> None:
        there = list(self.world.launched.values())
        there[-1 - which % len(there)].end(self.world.wall)

    @invariant()
    def check(self) -> None:
        if not hasattr(self, "world"):
            return
        alive = [it for it in self.world.launched.values() if it.phase == "alive"]
        assert len(alive) <= 1, f"two drivers on one checkpoint: {alive}"
        for stream, record in self.world.records.items():
            assert record.epoch >= self.epochs[stream], f"the epoch of {stream!r} went back"
            self.epochs[stream] = record.epoch

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            self.end_well()
        finally:
            for operation in self.world.operations:
                operation.crash()
            for each in self.patches:
                each.stop()

    def end_well(self) -> None:
        """All that was under way is dead. What is left of each stream?"""
        for operation in self.world.operations:
            operation.crash()
        self.supervisors_go_on()
        self.world.reachable = True
        for stream in self.world.records:
            for _ in range(2):  # an attempt that the crash cut off makes the next one wait
                self.world.wall += 2.0
                self.by_itself(recovery(stream))
            record = self.world.records[stream]
            driver = self.found(stream)
            if driver is None or driver.state in (DriverState.RUNNING, DriverState.UNKNOWN):
                continue
            if driver.state is DriverState.STOPPED:
                assert stream in self.stops, f"{stream!r} was stopped by nobody"
                continue
            assert record.desired != "stopped"
            other = next(name for name in STREAMS if name != stream)
            taken = self.world.claims[CHECKPOINT].stream == other
            why_not = taken or record.host != "h1"
            assert why_not, f"{stream!r} is {driver.state.value} for good: {record}"

    def found(self, stream: str) -> Driver | None:
        seen: list[Driver | None] = []
        self.by_itself(lambda side: seen.append(side.find(stream)))
        return seen[0]

    def by_itself(self, act: Callable[[Side], Any]) -> None:
        """On the first host, undisturbed, and for as long as an expiring lease takes."""
        operation = self._begin("h1", act)
        for step in range(300):
            operation.step()
            if step > 40:
                self.world.now += 1.0
        self.supervisors_go_on()
        assert operation.done


TestStarts = pytest.mark.filterwarnings("ignore:The `__fields__`")(Starts.TestCase)
TestStarts.settings = settings(max_examples=1500, stateful_step_count=12, deadline=None)
