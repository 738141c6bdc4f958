"""The executors of one SparkContext: how many there are, asking for more, removing some."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .jvm import Jvm
from .log import say
from .victims import Candidate, choose
from .wire import Executor

LEAVE_WITHIN = 120.0
"""Seconds a decommissioned executor is given to move its blocks and leave before it is killed."""

MOST_UNREGISTERED = 200
"""Launched executors that are called off before they register, at most."""


@dataclass(frozen=True, slots=True)
class Leave:
    told_at: float
    killed: bool


class Executors:
    """Brings the executors of one SparkContext to an absolute number, again and again.

    Uses `org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend`. For one thread.
    """

    def __init__(self, jvm: Jvm, clock: Callable[[], float] = time.monotonic) -> None:
        self._jvm = jvm
        self._clock = clock
        self._backend = jvm.spark.schedulerBackend()
        self._leaving: dict[str, Leave] = {}
        conf = jvm.spark.conf()
        self._decommissions = conf.getBoolean("spark.decommission.enabled", False)
        self._kind = self._backend.getClass().getSimpleName()
        self.scalable = self._kind != "LocalSchedulerBackend"
        """False for a `local[...]` master, which has no executors of its own."""

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
        if self._kind != "StandaloneSchedulerBackend":
            return
        conf = self._jvm.spark.conf()
        if most is None or conf.contains("spark.cores.max"):
            cores = conf.getInt("spark.cores.max", 0)
            per_executor = conf.getInt("spark.executor.cores", 1)
            most = cores // per_executor if cores else MOST_UNREGISTERED
        surplus = range(target, min(most, target + MOST_UNREGISTERED))
        if surplus:
            self._backend.doKillExecutors(self._jvm.seq(str(number) for number in surplus))

    def observe(self, receivers: Mapping[str, int]) -> tuple[Executor, ...]:
        """The executors registered now. `receivers`: how many each one hosts."""
        if not self.scalable:
            return ()
        ids = set(filter(None, self._backend.getExecutorIds().mkString(",").split(",")))
        self._leaving = {id: leave for id, leave in self._leaving.items() if id in ids}
        known = {
            item["id"]: item
            for item in self._jvm.read(self._jvm.spark.statusStore().executorList(True))
        }
        # statusStore lags behind the backend by an event queue: an executor may be missing there.
        return tuple(
            Executor(
                id=id,
                host=known.get(id, {}).get("hostPort", "").rpartition(":")[0],
                cores=known.get(id, {}).get("totalCores", 0),
                active_tasks=known.get(id, {}).get("activeTasks", 0),
                receivers=receivers.get(id, 0),
            )
            for id in sorted(ids, key=lambda id: (len(id), id))
        )

    @property
    def removing(self) -> int:
        """Executors told to leave that were still registered when last observed."""
        return len(self._leaving)

    def shrink(self, executors: Sequence[Executor], target: int) -> str | None:
        """Tell as many executors to leave as are too many. Returns why fewer go, if so.

        The caller states the target again afterwards: killing lowers Spark's own.
        """
        choice = choose(
            [
                Candidate(e.id, e.active_tasks, e.receivers, e.id in self._leaving)
                for e in executors
            ],
            target,
        )
        if choice.victims:
            how = "decommissioning" if self._decommissions else "killing"
            say(
                f"{how} executor(s) {', '.join(choice.victims)}: "
                f"{len(executors)} registered, target {target}"
            )
            for id in choice.victims:
                self._tell_to_leave(id)
        return choice.blocked

    def _tell_to_leave(self, id: str) -> None:
        if self._decommissions:
            info = self._jvm.view.org.apache.spark.scheduler.ExecutorDecommissionInfo(
                "sparkscale: scaling down", self._jvm.view.scala.Option.empty()
            )
            # adjustTargetNumExecutors false: the target is stated absolutely, by request(). The
            # answer is false for one that is being decommissioned already, as by its worker.
            self._backend.decommissionExecutor(id, info, False, False)
            self._leaving[id] = Leave(self._clock(), killed=False)
        else:
            self._kill([id])

    def kill_overdue(self) -> None:
        """Kill the executors that were told to leave long ago and have not."""
        late = [
            id
            for id, leave in self._leaving.items()
            if not leave.killed and self._clock() - leave.told_at > LEAVE_WITHIN
        ]
        if late:
            say(
                f"killing executor(s) {', '.join(late)}: decommissioned {LEAVE_WITHIN:.0f} s ago "
                "and still there"
            )
            self._kill(late)

    def _kill(self, ids: Sequence[str]) -> None:
        # adjustTargetNumExecutors false, countFailures false, force true.
        self._backend.killExecutors(self._jvm.seq(ids), False, False, True)
        for id in ids:
            told_at = self._leaving[id].told_at if id in self._leaving else self._clock()
            self._leaving[id] = Leave(told_at, killed=True)
