"""A Spark whose cluster manager loses requests, and what keeps its executors at a target.

It does as Spark's `CoarseGrainedSchedulerBackend` does: it kills no executor for a second time
(SPARK-9795).
"""

import threading
from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from dagster_sparkscale.driver.executors.control import ExecutorControl
from dagster_sparkscale.driver.executors.executors import (
    Executors,
)
from dagster_sparkscale.driver.executors.guard import Going, Pinned
from dagster_sparkscale.driver.executors.target import (
    ExecutorContext,
    Keeper,
)
from dagster_sparkscale.driver.executors.victims import V1, Rule
from dagster_sparkscale.driver.operation_order import Admission
from dagster_sparkscale.driver.receivers.tracker import NO_RECEIVERS, Receivers
from dagster_sparkscale.driver.spark.looks import Look
from dagster_sparkscale.driver.spark.private import PrivateSpark
from tests.driver.serving import options
from tests.waiting import HANGS


class Seq(list[str]):
    def mkString(self, between: str) -> str:
        return between.join(self)


class Backend:
    """Of Standalone, while its master may be away."""

    def __init__(self, executors: int) -> None:
        self.registered = {str(number) for number in range(executors)}
        self.pending: set[str] = set()
        self.decommissioned: list[str] = []
        self.decommissioned_by_worker: set[str] = set()
        self.master_is_there = True
        self.master_answers = True

    def getExecutorIds(self) -> Seq:
        return Seq(sorted(self.registered))

    def decommissionExecutor(self, id: str, *_: Any) -> bool:
        self.decommissioned.append(id)
        return True

    def isExecutorActive(self, id: str) -> bool:
        gone = self.pending | self.decommissioned_by_worker | set(self.decommissioned)
        return id in self.registered and id not in gone

    def killExecutors(self, ids: Iterable[str], adjust: bool, count: bool, force: bool) -> Seq:
        assert (adjust, count, force) == (False, False, True)
        kill = [id for id in ids if id in self.registered and id not in self.pending]
        self.pending |= set(kill)
        return Seq(kill if kill and self.doKillExecutors(kill) else [])

    def doKillExecutors(self, ids: Iterable[str]) -> bool:
        if self.master_is_there:
            self.registered -= set(ids)
        return self.master_answers


class Spark:
    """A SparkContext with that backend."""

    def __init__(self, backend: Backend, decommissions: bool) -> None:
        self.backend = backend
        self.targets: list[int] = []
        self.stopped = False
        self.cores = 2
        self._decommissions = decommissions

    def schedulerBackend(self) -> Backend:
        return self.backend

    def conf(self) -> Any:
        return SimpleNamespace(getBoolean=lambda name, default: self._decommissions)

    def isLocal(self) -> bool:
        return False

    def isStopped(self) -> bool:
        return self.stopped

    def requestTotalExecutors(self, target: int, *_: Any) -> bool:
        self.targets.append(target)
        return True

    def statusStore(self) -> Any:
        return SimpleNamespace(executorList=lambda active: self._listed())

    def _listed(self) -> list[dict[str, Any]]:
        return [
            {"id": id, "hostPort": "host:1", "totalCores": self.cores, "activeTasks": 0}
            for id in self.backend.registered
        ]


def jvm_of(spark: Spark) -> Any:
    scheduler = SimpleNamespace(ExecutorDecommissionInfo=lambda *_: None)
    apache = SimpleNamespace(spark=SimpleNamespace(scheduler=scheduler))
    scala = SimpleNamespace(Option=SimpleNamespace(empty=lambda: None))
    view = SimpleNamespace(org=SimpleNamespace(apache=apache), scala=scala)
    return SimpleNamespace(spark=spark, view=view, seq=list, read=lambda it: it, empty_map=dict)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Cluster:
    """Four executors, kept at a target by a clock that a test moves on."""

    def __init__(self, decommissions: bool = False, rule: Rule = V1) -> None:
        self.backend = Backend(4)
        self.spark = Spark(self.backend, decommissions)
        self.clock = Clock()
        self.receivers: Receivers | None = NO_RECEIVERS
        self.streaming_answers = threading.Event()
        self.streaming_answers.set()
        self._look = Look("receivers", self._look_at_receivers)
        self._look.begin()
        private = PrivateSpark()
        executors = Executors(jvm_of(self.spark), private, self.clock)
        bound = ExecutorContext(executors, None, None, "4.3.0", rule)
        self.to_go = Going()
        self.keeper = Keeper(self, private, self.clock)
        self.keeper._current = lambda: bound

    # As the guard of its executors.

    pin = "receiver"

    def known(self) -> Pinned | None:
        raise AssertionError("the keeper does not ask for what was seen before")

    def held(self, within: float) -> Pinned | None:
        receivers = self._look.now(within)
        return receivers

    def going(self, executors: Going) -> None:
        self.to_go = executors

    def _look_at_receivers(self) -> Receivers | None:
        assert self.streaming_answers.wait(HANGS)
        return self.receivers

    def turn(self, target: int, after: float = 0.0, stopping: bool = False) -> Any:
        self.clock.now += after
        return self.keeper.turn(target, stopping)


def control_of(cluster: Cluster) -> ExecutorControl:
    """What keeps its four executors in a driver that runs."""
    admission = Admission()
    admission.phase, admission.attached = "running", True
    four = replace(options(), initial_executors=4)
    control = ExecutorControl(four, PrivateSpark(), admission)
    control._keeper, control.look = cluster.keeper, Look("executors", control._turn, lambda: 0.1)
    control.look.begin()
    return control
