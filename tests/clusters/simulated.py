"""What two Dagsters do on two hosts (`simulated_world.py`), for the walk of test_start_machine.py.

What is real: leases, `begin`, `reconcile`, `stop` and `recover`. Simulated are the atoms of the
store, each a moment at which anything else may happen, the processes and the clocks.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from dagster_sparkscale.clusters.base import ClusterManager, Driver, DriverState
from dagster_sparkscale.clusters.capacity import Capacity
from dagster_sparkscale.clusters.errors import AgentUnreachable, AlreadyRunning, ClusterError
from dagster_sparkscale.clusters.records import leases
from dagster_sparkscale.clusters.records.leases import Lease
from dagster_sparkscale.clusters.records.overtaking import Holder, Requester
from dagster_sparkscale.clusters.records.starts import Drivers, begin, refuse_if_held
from dagster_sparkscale.clusters.records.store import Claim, Conflict, Process, Record
from dagster_sparkscale.declare.policies import RecoveryPolicy
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.lifecycle.reconcile import Start, reconcile
from dagster_sparkscale.lifecycle.recovery import Restart, recover
from tests.clusters.simulated_world import Launched, World
from tests.fakes import structured

CHECKPOINT = "file:///data/clicks"
POLICY = RecoveryPolicy(first_delay=1, longest_delay=1, limit=20, within=3600)
STREAMS = {
    name: structured(name, checkpoint_location="/data/clicks", recovery=POLICY)
    for name in ("old", "new")
}
HOSTS = ("h1", "h2")


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
        self._fault: Exception | None = None
        self._arrived, self._go = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, args=(act,), daemon=True)
        self._thread.start()
        self._arrived.acquire()

    def _run(self, act: Callable[["Side"], Any]) -> None:
        _current.operation = self
        try:
            with suppress(Crashed, ClusterError):
                self.pause()
                act(self.side())
        except Exception as error:
            self._fault = error
        self.done = True
        self._arrived.release()

    def side(self) -> Any:
        """What it sees and does things by."""
        return Side(self)

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
        if self._fault is not None:
            raise self._fault

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

    def lease(
        self, stream: str, holder: Holder, wait: float = 0.0
    ) -> AbstractContextManager[Lease]:
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

    def submit(
        self,
        stream: Stream,
        lease: Lease,
        cause: str = "manual",
        settings: Mapping[str, str] | None = None,
        pinned: int | None = None,
    ) -> Driver:
        lease.check(stream.name)
        refuse_if_held(stream.name, lease.record)
        self._make_way(stream.name, lease.record)
        start = begin(
            self,
            lease,
            Drivers(self._who_runs, self._took, lambda name: self.lease(name, lease.holder, 5.0)),
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
        self._world.launched[key] = Launched(stream.name, start, self._host)
        self._world.there.append(self._world.launched[key])
        moment()
        driver = self._describe(stream.name, start.record)
        assert driver is not None
        return driver

    def _make_way(self, stream: str, record: Record) -> None:
        before = self._describe(stream, record)
        if before is not None and before.state.alive:
            raise AlreadyRunning(str(before))
        if others := self._world.in_the_way(self._host, record):
            raise AlreadyRunning(str(others))
        for it in self._world.there:
            if it.host == self._host and it.start.record.id == record.id:
                assert it.phase != "alive", f"a start kills a driver: {it}"
                it.end(self._world.wall)

    def _who_runs(self, stream: str) -> str | None:
        driver = self.find(stream)
        return driver.where if driver is not None and driver.state.alive else None

    def _took(self, stream: str, epoch: int) -> bool:
        moment()
        key = (stream, epoch)
        return key in self._world.took and key not in self._world.fenced

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
        return Driver(
            stream,
            record.epoch,
            state,
            record.submitted_at,
            ended_at=ended,
            where="?",
            fenced=(stream, record.epoch) in self._world.fenced,
        )

    def _state(self, record: Record, it: Launched | None) -> DriverState:
        if (it is not None and it.phase == "ended") or record.gone == record.epoch:
            return DriverState.FAILED
        if record.host != self._host:
            answers = it is not None and it.phase == "alive" and self._world.reachable
            return DriverState.RUNNING if answers else DriverState.UNKNOWN
        if it is not None and it.phase == "lingers":
            return DriverState.FAILED
        if it is not None:
            return DriverState.RUNNING if it.phase == "alive" else DriverState.STARTING
        mine = record.id, record.epoch, self._host  # what runs elsewhere is not seen from here
        for it in self._world.there:  # its files are not there, its processes are
            if it.phase != "ended" and (it.start.record.id, it.epoch, it.host) == mine:
                return DriverState.STARTING
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
    return lambda side: reconcile(side, STREAMS[stream], Requester("start"), Start(**how))


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
