"""Two hosts, what is remembered of streams, and their processes, supervisors and drivers."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dagster_sparkscale.clusters.records.starts import EpochStart
from dagster_sparkscale.clusters.records.store import Claim, Process, Record
from dagster_sparkscale.driver.begin.fence import Mark, why_not

if TYPE_CHECKING:
    from tests.clusters.simulated import Operation


@dataclass(eq=False)
class Launched:
    """A supervisor and its driver."""

    stream: str
    start: EpochStart
    host: str
    phase: str = "spawned"
    """`spawned`, `looked` (at the record, and may start), `told` (that it takes the checkpoint),
    `alive`, `lingers` (killed but for its JVM), `ended`."""
    ended_at: float | None = None
    found: Mark | None = None
    """In the checkpoint, when it looked."""

    @property
    def epoch(self) -> int:
        return self.start.record.epoch

    @property
    def key(self) -> tuple[str, int]:
        return self.stream, self.epoch

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
    """Of whom there are files."""
    took: set[tuple[str, int]] = field(default_factory=set)
    fenced: set[tuple[str, int]] = field(default_factory=set)
    there: list[Launched] = field(default_factory=list)
    """All that were ever launched, remembered or not."""
    was_put_back: bool = False
    """Whether the state folder was once older than the drivers."""
    mark: Mark | None = None
    """In the checkpoint."""
    operations: "list[Operation]" = field(default_factory=list)
    reachable: bool = True
    """Whether agents are reached from the other host."""

    def process_lives(self, process: Process | None) -> bool:
        return any(o.process == process and o.alive for o in self.operations)

    def copy(self) -> tuple[Any, ...]:
        """Of the state folder."""
        kept = (self.records, self.claims, self.folders, self.launched, self.took, self.fenced)
        return tuple(each.copy() for each in kept)

    def put_back(self, copy: tuple[Any, ...]) -> None:
        """Once nobody works with the state folder; drivers go on."""
        for operation in self.operations:
            operation.crash()
        mine = (each.copy() for each in copy)
        self.records, self.claims, self.folders, self.launched, self.took, self.fenced = mine
        self.was_put_back = True

    def go_on(self, it: Launched) -> None:
        """The next step of a supervisor and its driver."""
        steps = {"spawned": self._look, "looked": self._tell, "told": self._take}
        if it.phase in steps:
            steps[it.phase](it)

    def _look(self, it: Launched) -> None:
        """What a supervisor does first of all."""
        record = self.records.get(it.stream)
        wanted = record and (record.epoch, record.desired) == (it.epoch, "running")
        if record and wanted and record.gone != it.epoch:
            it.phase = "looked"
        else:
            it.end(self.wall)

    def _tell(self, it: Launched) -> None:
        """What its driver does once it has Spark. That of an earlier one is never in its way: only
        what this store does not know of is."""
        it.found = self.mark
        if why_not(self.mark, self._mark_of(it), it.start.succeeds) is not None:
            assert self.was_put_back
            self._refuse(it)
            return
        if self._has_its_folder(it):
            self.took.add(it.key)
        it.phase = "told"

    def _take(self, it: Launched) -> None:
        if self.mark != it.found:  # another writes right after it
            assert self.was_put_back
            self._refuse(it)
        else:
            self.mark, it.phase = self._mark_of(it), "alive"

    def _refuse(self, it: Launched) -> None:
        if self._has_its_folder(it):
            self.fenced.add(it.key)
        it.end(self.wall)

    def _has_its_folder(self, it: Launched) -> bool:
        return self.launched.get(it.key) is it

    def _mark_of(self, it: Launched) -> Mark:
        key = str(self.there.index(it))
        return Mark(it.stream, it.start.record.id, it.epoch, key, 0.0, it.host)

    def in_the_way(self, host: str, record: Record) -> list[Launched]:
        """What on a host works on the checkpoint, and is not for a start of that record's stream
        to end."""
        known = record.epoch if record.host == host else 0
        return [
            it
            for it in self.there
            if it.host == host and it.phase != "ended"
            if it.start.record.id != record.id or it.epoch > known
        ]
