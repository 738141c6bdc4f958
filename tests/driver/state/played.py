"""Spark's part in a change of a query's state, played on a checkpoint on this disk."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from dagster_sparkscale.driver.state import closing, layout, reconfigure
from dagster_sparkscale.driver.state.fingerprint import Fingerprint, Group, Partition, Rows
from dagster_sparkscale.driver.state.journal import Journal
from dagster_sparkscale.driver.state.operators import Store
from dagster_sparkscale.driver.state.plans import StatePlan
from dagster_sparkscale.driver.state.prepared import Prepared
from dagster_sparkscale.driver.state.reporting import Reporting
from dagster_sparkscale.driver.wire import Reconfiguration
from tests.driver.state.disk import Disk, rewrite

PLAN = StatePlan("plan", partitions=8, key_groups=8, queries=("counts",))
STORE = (0, "default")


def all_rows(_batch: int, rows: Rows) -> Rows:
    return rows


def without_a_row(batch: int, rows: Rows) -> Rows:
    """Of the state that batch 2 has left all, and of what it was changed to all but one."""
    lacking = {group: rows.groups[group] for group in sorted(rows.groups)[1:]}
    return rows if batch == 2 else replace(rows, groups=lacking)


class Attempts:
    """Those of a stage, as a sequence of Scala: with so many tasks that run."""

    def __init__(self, *active: int) -> None:
        self._active = active

    def size(self) -> int:
        return len(self._active)

    def apply(self, index: int) -> SimpleNamespace:
        return SimpleNamespace(numActiveTasks=lambda: self._active[index])


class Context:
    """A SparkContext, as far as it tells of the tasks of a job."""

    def __init__(self) -> None:
        self._jsc = SimpleNamespace(sc=lambda: self)
        self._jvm = SimpleNamespace(
            java=SimpleNamespace(util=SimpleNamespace(ArrayList=list)), double=float
        )
        self._gateway = SimpleNamespace(new_array=lambda kind, size: [kind()] * size)
        self.properties: dict[str, str | None] = {"spark.jobGroup.id": "the program's"}
        self.tasks: list[threading.Thread] = []
        self.asked: Callable[[], None] = lambda: None
        """Called when it has counted the tasks that run."""
        self.cancelled = threading.Event()
        """Jobs of the group that this thread's are of."""

    def getLocalProperty(self, name: str) -> str | None:
        return self.properties.get(name)

    def setLocalProperty(self, name: str, value: str | None) -> None:
        self.properties[name] = value

    def setJobGroup(self, group: str, description: str) -> None:
        self.properties |= {"spark.jobGroup.id": group, "spark.job.description": description}

    def cancelJobGroup(self, group: str) -> None:
        assert group == self.properties["spark.jobGroup.id"] != "the program's"
        self.cancelled.set()

    def statusTracker(self) -> "Context":
        return self

    def getJobIdsForGroup(self, group: str) -> list[int]:
        assert group == self.properties["spark.jobGroup.id"] != "the program's"
        return [1, 7]

    def getJobInfo(self, job: int) -> SimpleNamespace | None:
        return SimpleNamespace(stageIds=[1, 2]) if job == 1 else None

    def statusStore(self) -> "Context":
        return self

    def stageData(self, stage: int, *_: object) -> Attempts:
        if stage != 1:
            return Attempts()
        running = sum(task.is_alive() for task in self.tasks)
        self.asked()
        return Attempts(running)


class Spark:
    """A session. The query's state has a row in each key group.

    Args:
        meanwhile: called when the new state is written.
        before: called before any of it is.
        stores: of the query's operators.
        read: what is read of the state of a batch, given what there is.
    """

    def __init__(
        self,
        disk: Disk,
        meanwhile: Callable[[], None] = lambda: None,
        context: Context | None = None,
        stores: tuple[Store, ...] = (STORE,),
        read: Callable[[int, Rows], Rows] = all_rows,
        before: Callable[[], None] = lambda: None,
    ) -> None:
        self._disk, self._meanwhile, self._read, self._before = disk, meanwhile, read, before
        self._stores = stores
        self.sparkContext = context or Context()
        self._streamingCheckpointManager = self
        self.conf: dict[str, str] = {}

    def playing(self) -> AbstractContextManager[Any]:
        """While it lasts, a change reads the state from this."""
        return patch.multiple(reconfigure, stores=self.stores, fingerprint=self.fingerprint)

    def stores(self, folder: Disk) -> tuple[Store, ...]:
        assert folder.path == self._disk.path
        return self._stores

    def fingerprint(
        self,
        session: "Spark",
        path: str,
        of: Iterable[Store],
        batch: int,
        partitions: int,
        groups: int,
    ) -> Fingerprint:
        assert (session, path, set(of)) == (self, self._disk.path, set(self._stores))
        assert not any(task.is_alive() for task in self.sparkContext.tasks)
        entry = self._disk.read(f"{layout.OFFSETS}/{batch}")
        assert entry is not None and self._disk.exists(f"{layout.COMMITS}/{batch}")
        assert layout.bound(entry.decode(), "offsets").partitions == partitions
        counts = Counter(group % partitions for group in range(groups))
        rows = Rows(
            {group: Group(1, (group, group)) for group in range(groups)},
            {place: Partition(count) for place, count in counts.items()},
        )
        return Fingerprint(batch, partitions, {s: self._read(batch, rows) for s in self._stores})

    def repartition(self, path: str, partitions: int, exactly_once: bool) -> None:
        assert (path, exactly_once) == (self._disk.path, True)
        jobs = self.sparkContext.properties
        assert jobs["spark.jobGroup.id"] == f"sparkscale {path}"
        assert jobs["spark.job.description"] == f"state -> {partitions}"
        self._before()
        rewrite(self._disk, partitions)
        self._meanwhile()


class Steps(Reporting):
    """A report that keeps the steps it has had."""

    def __init__(self) -> None:
        super().__init__("plan", "counts")
        self.steps: list[str] = []

    def step(self, name: str) -> None:
        self.steps.append(name)
        super().step(name)


@dataclass(frozen=True)
class Came:
    """What a change came to."""

    change: Reconfiguration
    steps: list[str]
    counts: bool
    """Whether it is worth to be noted."""


def changed(
    disk: Disk,
    spark: Spark | None = None,
    plan: StatePlan = PLAN,
    stopping: Callable[[], bool] = lambda: False,
    version: str = "4.3.0",
    prepared: Prepared | None = None,
    earlier: Fingerprint | None = None,
    slots: int | None = None,
) -> Came:
    """Change the state of the query whose checkpoint is on `disk`."""
    spark = spark or Spark(disk)
    report = Steps()
    with spark.playing():
        counts = reconfigure.Attempt(
            *(spark, disk, Journal(disk), plan, report, version),
            stopping=stopping,
            pass_over=disk.pass_over,
            slots=lambda: slots,
        ).carry_out(earlier, prepared)
    return Came(report.change, report.steps, counts)


def resumed(disk: Disk) -> list[Reporting]:
    """What the next driver tells of a change that an earlier one has begun."""
    reports: list[Reporting] = []

    def report(id: str, before: int, after: int) -> Reporting:
        reports.append(Reporting(id, "counts", before=before, after=after))
        return reports[-1]

    closing.resume(disk, Journal(disk), report, disk.pass_over)
    return reports
