"""The processes of drivers, as a cluster in memory runs them: what is so, whoever believes what.

A driver looks at the record before it begins, takes its checkpoint by the library's own fence,
runs, and ends: of itself, asked, or killed. Nothing here fails or is held up: that happens to who
calls.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from dagster_sparkscale.clusters.base import Driver, DriverState
from dagster_sparkscale.clusters.launch.driver_options import Invocation
from dagster_sparkscale.clusters.records.starts import EpochStart
from dagster_sparkscale.driver.begin.fence import FIRST_LOOKS, LOOK_EVERY, Mark, why_not
from dagster_sparkscale.driver.ending.end_report import Stopped
from dagster_sparkscale.driver.operation_order import OperationOrder
from dagster_sparkscale.driver.settings import PLAN
from dagster_sparkscale.driver.state.plans import StatePlan, plan_of
from dagster_sparkscale.observe.status import Reconfiguration
from tests.fakes import QUERY, batch
from tests.faults.simulation import Simulation
from tests.in_memory.cluster import World
from tests.in_memory.driver import Kept, arrive
from tests.receivers.streams import on
from tests.state.saying import kept_by

HANGS = 0.3
"""The share of stops that a driver hears of, and does not end of."""
SOURCE = "events"
"""The one source of each stream."""
RECEIVERS = (2, 1)
"""So many on each executor, where a stream has receivers."""


@dataclass(eq=False)
class DriverProcess:
    """One driver that was launched."""

    start: EpochStart
    kept: Kept
    asked_by: str
    """The process that has launched it."""
    phase: str = "launched"
    """`launched`, `looked` (at the record, and may begin), `took` (told that it takes the
    checkpoint), `works`, `ended`."""
    began_at: float = 0.0
    """When it began to work, by the simulation's clock."""
    ended_at: float | None = None
    """Seconds since the epoch."""
    reason: str = ""
    stopped: Stopped | None = None
    fenced: str | None = None
    met: Mark | None = None
    """The mark for which it may not have its checkpoint."""
    order: OperationOrder = field(default_factory=OperationOrder)
    moves: list[tuple[int, str, int | None]] = field(default_factory=list)
    """Receiver, executor and operation of each move that was begun."""
    plans: list[str] = field(default_factory=list)
    """Ids of the plans that were begun, once for each time."""

    @property
    def stream(self) -> str:
        return self.kept.driver.stream

    @property
    def epoch(self) -> int:
        return self.start.record.epoch

    @property
    def works(self) -> bool:
        return self.phase == "works"

    @property
    def mark(self) -> Mark:
        record = self.start.record
        key = f"{self.stream} {record.id} {record.epoch}"
        return Mark(self.stream, record.id, record.epoch, key, record.submitted_at, "memory")

    def __repr__(self) -> str:
        return f"driver {self.epoch} of {self.stream!r} ({self.phase}, by {self.asked_by})"


@dataclass
class Processes:
    """All drivers that were ever launched, and the checkpoints that they work on."""

    world: World
    clock: Simulation
    begun: Callable[[DriverProcess], None] = lambda it: None
    """Called with a driver that has begun to work."""
    all: list[DriverProcess] = field(default_factory=list)
    submitted: dict[tuple[str, int], float] = field(default_factory=dict)
    """When the record of a driver was first stored, by the simulation's clock, by stream and
    epoch."""
    marks: dict[str, Mark] = field(default_factory=dict)
    """In checkpoints."""
    partitions: dict[str, int] = field(default_factory=dict)
    """Of the state in checkpoints."""
    took: set[tuple[str, int]] = field(default_factory=set)

    def of(self, stream: str, epoch: int) -> DriverProcess | None:
        found = (it for it in self.all if (it.stream, it.epoch) == (stream, epoch))
        return next(found, None)

    def working(self, checkpoint: str | None = None) -> list[DriverProcess]:
        """Those that work, on that checkpoint or on any."""
        return [
            it for it in self.all if it.works and checkpoint in (None, it.start.record.checkpoint)
        ]

    def launch(self, call: Invocation, start: EpochStart, by: str) -> None:
        record, stream = start.record, call.stream
        driver = Driver(
            *(stream.name, record.epoch, DriverState.RUNNING, record.submitted_at),
            agent_url=f"http://memory/{stream.name}/{record.epoch}",
            app_id=f"app-{record.epoch}",
            where=f"memory process {record.epoch}",
        )
        kept = Kept(
            driver,
            requested=record.executors or 1,
            executor_cores=stream.executor_cores,
            settings=dict(call.settings or {}),
            rates=dict(record.rates or {}),
            in_place={QUERY: None},
        )
        if stream.kind != "structured":
            kept.executors, kept.receivers = on(RECEIVERS)
        it = DriverProcess(start, kept, by)
        self.all.append(it)
        self.world.streams[stream.name] = kept
        self.clock.begin(f"driver {record.epoch} of {stream.name}", lambda: self._life(it))

    def end(self, it: DriverProcess, reason: str, stopped: Stopped | None = None) -> None:
        if it.phase != "ended":
            it.phase, it.ended_at, it.reason = "ended", self.clock.wall, reason
            it.stopped = stopped

    def stop(self, it: DriverProcess, graceful: bool) -> None:
        """Have a driver end that was asked to; it takes its time, and a few never end of that."""
        it.kept.phase = "stopping"
        if self.clock.chance.random() < HANGS:
            return
        seconds = self.clock.chance.uniform(0.2, 8.0) if graceful else 0.2

        def end() -> None:
            self.end(it, "exit code 0", Stopped(self.clock.wall, graceful, True))

        self.clock.begin("ending", end, seconds)

    def change_state(self, it: DriverProcess, plan: StatePlan) -> None:
        """Change the state of a driver that works, once for each plan."""
        if plan.id in it.plans:
            return
        it.plans.append(plan.id)
        now = Reconfiguration(plan.id, QUERY, "rewriting", self.clock.wall, way="in place")
        it.kept.reconfigurations = (now,)
        seconds = self.clock.chance.uniform(0.5, 5.0)
        self.clock.begin("changing", lambda: self._changed(it, plan, now), seconds)

    def _life(self, it: DriverProcess) -> None:
        clock = self.clock
        clock.sleep(clock.chance.uniform(0.05, 2.0))
        record = self.world.records.get(it.stream)
        wanted = record and (record.epoch, record.desired) == (it.epoch, "running")
        if record is None or not wanted or record.gone == it.epoch:
            self.end(it, "it is not wanted any more")
            return
        it.phase = "looked"
        clock.sleep(clock.chance.uniform(0.05, 3.0))
        place = record.checkpoint or ""
        found = self.marks.get(place)
        if it.phase == "ended" or self._is_fenced(it, found):
            return
        self.took.add((it.stream, it.epoch))
        it.phase = "took"
        clock.sleep(clock.chance.uniform(0.0, 0.2))
        if it.phase != "took" or (self.marks.get(place) != found and self._is_fenced(it, place)):
            return
        self.marks[place] = it.mark
        self._work(it, place)
        for pause in (*FIRST_LOOKS, *[LOOK_EVERY] * 1000):
            clock.sleep(pause)
            if not it.works:
                return
            if self.marks.get(place) != it.mark:
                self._fence(it, "another driver has taken its checkpoint")
                return

    def _work(self, it: DriverProcess, place: str) -> None:
        it.phase, it.began_at = "works", self.clock.now
        plan = plan_of(it.kept.settings[PLAN]) if PLAN in it.kept.settings else None
        if plan is not None and plan.id not in it.plans:
            it.plans.append(plan.id)
            self._changed(it, plan, Reconfiguration(plan.id, QUERY, "over", self.clock.wall))
        self._see(it)
        self.begun(it)

    def _changed(self, it: DriverProcess, plan: StatePlan, change: Reconfiguration) -> None:
        if not it.works:
            return  # undone by the next start
        place = it.start.record.checkpoint or ""
        before = self.partitions.get(place, 4)
        self.partitions[place] = plan.partitions
        over = replace(
            *(change,),
            step="over",
            outcome="changed",
            before=before,
            after=plan.partitions,
            over_at=self.clock.wall,
        )
        it.kept.reconfigurations = (over,)

    def see(self, it: DriverProcess) -> None:
        """What its agent would see of it by now."""
        if it.works:
            arrive(it.kept)
            self._see(it)

    def _see(self, it: DriverProcess) -> None:
        kept, now = it.kept, self.clock.wall
        if kept.receivers == ():
            place = it.start.record.checkpoint or ""
            kept.queries = (kept_by(partitions=self.partitions.setdefault(place, 4)),)
        kept.batches = (batch(1.0, ago=0.0, now=now),)

    def _is_fenced(self, it: DriverProcess, found: Mark | str | None) -> bool:
        mark = self.marks.get(found) if isinstance(found, str) else found
        why = why_not(mark, it.mark, it.start.succeeds)
        if why is not None:
            it.met = mark
            self._fence(it, why)
        return why is not None

    def _fence(self, it: DriverProcess, why: str) -> None:
        it.fenced = why
        self.end(it, "exit code 75")
