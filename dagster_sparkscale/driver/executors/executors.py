"""The executors of one SparkContext: how many there are, asking for more, removing some."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from dagster_sparkscale.driver.log import say
from dagster_sparkscale.driver.spark.features import (
    ACTIVE,
    DECOMMISSION,
    DETAILS,
    KILL,
    KILL_AGAIN,
    REGISTERED,
)
from dagster_sparkscale.driver.spark.jvm import Jvm
from dagster_sparkscale.driver.spark.private import PrivateSpark
from dagster_sparkscale.driver.wire import Executor

from .victims import Candidate, Choice, Rule, choose

LEAVE_WITHIN = 120.0
"""Seconds a decommissioned executor is given to move its blocks and leave before it is killed."""

LOST_WITHIN = 6.0
"""Seconds in which Spark takes an executor off its list whose connection is gone (5 on Standalone).
Until then it looks like one that is being decommissioned."""

KILL_AGAIN_AFTER = 15.0
"""Seconds an executor that was killed is given to go before it is killed again."""

MOST_UNREGISTERED = 200
"""Launched executors that are called off before they register, at most."""


@dataclass(frozen=True, slots=True)
class Leave:
    """An executor that was told to leave."""

    kill_at: float
    """When it is killed (again), if it is still there."""
    killed: bool


class Executors:
    """Brings the executors of one SparkContext to an absolute number, again and again.

    Uses `org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend`. For one thread. Takes
    none of streaming's locks. One class, though long: observing, choosing and killing share the
    list of those that are leaving.
    """

    def __init__(
        self, jvm: Jvm, private: PrivateSpark, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._jvm = jvm
        self._private = private
        self._clock = clock
        self._backend = private.use(REGISTERED, jvm.spark.schedulerBackend, None)
        self._leaving: dict[str, Leave] = {}
        self._inactive: dict[str, float] = {}
        """Executors without tasks that this driver did not decommission, and since when."""
        conf = jvm.spark.conf()
        self._decommissions = conf.getBoolean("spark.decommission.enabled", False)
        self.scalable = not jvm.spark.isLocal()
        """False for a `local[...]` master, which has no executors of its own."""

    @property
    def stopped(self) -> bool:
        """Whether Spark has stopped the SparkContext, as it does when a master drops it."""
        return bool(self._jvm.spark.isStopped())

    def request(self, target: int) -> bool:
        """State the absolute number of executors to the cluster manager.

        Returns whether it has taken note. Below the registered number it removes nobody.
        """
        if not self.scalable:
            return False
        return bool(self._jvm.spark.requestTotalExecutors(target, 0, self._jvm.empty_map()))

    def call_off_surplus(self, target: int, most: int | None) -> None:
        """Right after the start: call executors off that were launched and have not registered.

        Standalone launches all that spark.cores.max admits as soon as an application registers,
        numbered from 0, before anybody can state a target. Killed now they cost nothing; what
        slips through is removed once it has registered.
        """
        if not self._jvm.spark.master().startswith("spark://"):
            return
        conf = self._jvm.spark.conf()
        if most is None or conf.contains("spark.cores.max"):
            cores = conf.getInt("spark.cores.max", 0)
            per_executor = conf.getInt("spark.executor.cores", 1)
            most = cores // per_executor if cores else MOST_UNREGISTERED
        surplus = range(target, min(most, target + MOST_UNREGISTERED))
        if surplus:
            self._kill_whatever_spark_thinks([str(number) for number in surplus])

    def observe(self) -> tuple[Executor, ...] | None:
        """The executors registered now, without their receivers; None if this Spark does not
        tell."""
        if not self.scalable:
            return ()
        listed = self._private.use(REGISTERED, self._ids, None)
        if listed is None:
            return None
        ids = set(listed)
        self._leaving = {id: leave for id, leave in self._leaving.items() if id in ids}
        self._notice_decommissioned(ids)
        # The store lags behind the backend by an event queue: an executor may be missing there.
        nothing: dict[str, Any] = {}
        known = self._private.use(DETAILS, self._details, nothing)
        return tuple(
            Executor(
                id=id,
                host=known.get(id, {}).get("hostPort", "").rpartition(":")[0],
                cores=known.get(id, {}).get("totalCores", 0),
                active_tasks=known.get(id, {}).get("activeTasks", 0),
            )
            for id in sorted(ids, key=lambda id: (len(id), id))
        )

    def _ids(self) -> list[str]:
        return [*filter(None, self._backend.getExecutorIds().mkString(",").split(","))]

    def _notice_decommissioned(self, ids: Collection[str]) -> None:
        """Note executors that somebody else decommissions: their worker, or whoever ends their pod.

        Spark shows that only by giving them no more tasks. They have as much time as those that
        this driver decommissions.
        """
        now, before = self._clock(), self._inactive
        self._inactive = {
            id: before.get(id, now)
            for id in sorted(ids - self._leaving.keys())
            if not self._private.use(ACTIVE, partial(self._backend.isExecutorActive, id), True)
        }
        for id in [id for id, since in self._inactive.items() if now - since >= LOST_WITHIN]:
            say(f"executor {id} is leaving: decommissioned from outside")
            self._leaving[id] = Leave(now + LEAVE_WITHIN, killed=False)
            del self._inactive[id]

    def _details(self) -> dict[str, Any]:
        listed = self._jvm.read(self._jvm.spark.statusStore().executorList(True))
        return {item["id"]: item for item in listed}

    @property
    def removing(self) -> int:
        """Executors told to leave, by whomever, that were still registered when last observed."""
        return len(self._leaving)

    @property
    def unclear(self) -> bool:
        """Whether one is either lost or being decommissioned, which the next looks will tell."""
        return bool(self._inactive)

    @property
    def leaving(self) -> frozenset[str]:
        """The executors that are leaving."""
        return frozenset(self._leaving)

    def choose(
        self, executors: Sequence[Executor], target: int, rule: Rule, evacuated: Collection[str]
    ) -> Choice:
        """Whom to tell to leave, so that `target` stay."""
        return choose(
            [
                Candidate(
                    *(e.id, e.active_tasks, e.receivers),
                    leaving=e.id in self._leaving,
                    cores=e.cores,
                    evacuating=e.id in evacuated,
                )
                for e in executors
            ],
            target,
            rule,
        )

    def tell_to_leave(self, ids: Sequence[str], why: str | None) -> None:
        """Tell executors to leave.

        The caller states the target again afterwards: killing lowers Spark's own.
        """
        if ids:
            how = "decommissioning" if self._decommissions else "killing"
            say(f"{how} executor(s) {', '.join(ids)}: {why}")
        for id in ids:
            self._tell_to_leave(id)

    def _tell_to_leave(self, id: str) -> None:
        if self._decommissions and self._private.use(
            DECOMMISSION, lambda: self._decommission(id), False
        ):
            self._leaving[id] = Leave(self._clock() + LEAVE_WITHIN, killed=False)
        else:
            self._kill([id])

    def _decommission(self, id: str) -> bool:
        info = self._jvm.view.org.apache.spark.scheduler.ExecutorDecommissionInfo(
            "sparkscale: scaling down", self._jvm.view.scala.Option.empty()
        )
        # adjustTargetNumExecutors false: the target is stated absolutely, by request(). The
        # answer is false for one that is being decommissioned already, as by its worker.
        self._backend.decommissionExecutor(id, info, False, False)
        return True

    def kill_overdue(self) -> None:
        """Kill the executors that were told to leave long ago and have not."""
        late = [id for id, leave in self._leaving.items() if self._clock() >= leave.kill_at]
        first = [id for id in late if not self._leaving[id].killed]
        again = [id for id in late if self._leaving[id].killed]
        if first:
            say(
                f"killing executor(s) {', '.join(first)}: decommissioned {LEAVE_WITHIN:.0f} s ago "
                "and still there"
            )
            self._kill(first)
        if again and self._private.has(KILL_AGAIN):
            say(f"killing executor(s) {', '.join(again)} again: still there")
            self._kill_whatever_spark_thinks(again)

    def _kill(self, ids: Sequence[str]) -> None:
        # adjustTargetNumExecutors false, countFailures false, force true. It answers with those
        # that the cluster manager has taken note of.
        taken = self._private.use(
            KILL,
            lambda: self._backend.killExecutors(self._jvm.seq(ids), False, False, True).mkString(
                ","
            ),
            "",
        ).split(",")
        for id in ids:
            wait = KILL_AGAIN_AFTER if id in taken else 0.0
            self._leaving[id] = Leave(self._clock() + wait, killed=True)

    def _kill_whatever_spark_thinks(self, ids: Sequence[str]) -> None:
        """Have the cluster manager kill executors, registered or not.

        Spark kills none for a second time (SPARK-9795): once it has asked, it takes it for done,
        though the master was down or answered that it would not.
        """
        self._private.use(
            KILL_AGAIN, lambda: self._backend.doKillExecutors(self._jvm.seq(ids)), None
        )
        for id in ids:
            if id in self._leaving:
                self._leaving[id] = Leave(self._clock() + KILL_AGAIN_AFTER, killed=True)
