"""Removing executors of a Spark that behaves as it does when something goes wrong.

What goes well is tried on a real cluster (`test_structured.py`, `test_dstreams.py`). A kill that is
lost needs a master that fails at the very moment, so there is a backend here that does as Spark's
`CoarseGrainedSchedulerBackend` does: it kills no executor for a second time (SPARK-9795).
"""

import threading
from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError

from dagster_sparkscale.driver.executors import target as keeper_module
from dagster_sparkscale.driver.executors.executors import (
    KILL_AGAIN_AFTER,
    LEAVE_WITHIN,
    LOST_WITHIN,
    Executors,
)
from dagster_sparkscale.driver.executors.guard import Going, Held
from dagster_sparkscale.driver.executors.target import (
    PLACING_WITHIN,
    ExecutorContext,
    Keeper,
    rule_of,
)
from dagster_sparkscale.driver.executors.victims import V1, Rule
from dagster_sparkscale.driver.receivers.tracker import NO_RECEIVERS, Receivers
from dagster_sparkscale.driver.request import NotReady
from dagster_sparkscale.driver.spark.features import PrivateSpark
from dagster_sparkscale.driver.spark.looks import Look
from dagster_sparkscale.driver.wire import REMOVAL
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

    def known(self) -> Held | None:
        raise AssertionError("the keeper does not ask for what was seen before")

    def held(self, within: float) -> Held | None:
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


@pytest.mark.parametrize("master_answers", [True, False])
def test_an_executor_whose_kill_was_lost_is_killed_again(master_answers: bool) -> None:
    cluster = Cluster()
    cluster.backend.master_is_there, cluster.backend.master_answers = False, master_answers
    assert cluster.turn(3).removing == 1
    assert cluster.turn(3, after=KILL_AGAIN_AFTER).registered == 4
    cluster.backend.master_is_there = True
    cluster.turn(3, after=KILL_AGAIN_AFTER)
    seen = cluster.turn(3)
    assert (seen.registered, seen.removing) == (3, 0)


@pytest.mark.parametrize("decommissions", [True, False])
def test_an_executor_that_its_worker_decommissions_counts_as_leaving(
    decommissions: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whether or not the application's settings enable that: a worker does not ask."""
    cluster = Cluster(decommissions)
    cluster.backend.decommissioned_by_worker = {"1"}
    assert cluster.turn(4).removing == 0
    assert cluster.keeper.pause() < LOST_WITHIN
    seen = cluster.turn(4, after=LOST_WITHIN)
    assert (seen.registered, seen.removing) == (4, 1)
    assert cluster.to_go.leaving == {"1"}  # so its receivers are moved
    assert cluster.keeper.pause() > LOST_WITHIN
    cluster.turn(4, after=LEAVE_WITHIN - 1)
    assert cluster.backend.registered == {"0", "1", "2", "3"}
    told = "".join(capfd.readouterr())
    assert told.count("executor 1 is leaving: decommissioned from outside") == 1
    # It is one of those that are too many.
    assert cluster.turn(3).removing == 1
    assert cluster.turn(2).removing == 2
    assert cluster.to_go.leaving == {"1", "3"}
    cluster.backend.registered -= {"1", "3"}
    seen = cluster.turn(2)
    assert (seen.registered, seen.removing) == (2, 0)
    assert cluster.to_go.leaving == frozenset()


def test_one_that_its_worker_decommissions_and_that_does_not_go_is_killed() -> None:
    cluster = Cluster(decommissions=True)
    cluster.backend.decommissioned_by_worker = {"1"}
    cluster.turn(4)
    cluster.turn(4, after=LOST_WITHIN)
    cluster.turn(3, after=LEAVE_WITHIN)
    assert cluster.backend.registered == {"0", "2", "3"}


def test_one_that_is_lost_is_none_that_leaves() -> None:
    """Spark keeps it on its list for a moment."""
    cluster = Cluster()
    cluster.backend.decommissioned_by_worker = {"1"}
    assert cluster.turn(4).removing == 0
    assert cluster.turn(4, after=LOST_WITHIN - 1).removing == 0
    cluster.backend.registered -= {"1"}
    assert cluster.turn(4, after=1).removing == 0
    cluster.backend.registered |= {"1"}  # a test's short cut: there is none of that number again
    assert cluster.turn(4).removing == 0


def test_in_a_stop_no_receiver_is_sent_away_from_one() -> None:
    cluster = Cluster(decommissions=True)
    cluster.backend.decommissioned_by_worker = {"1"}
    cluster.turn(4, stopping=True)
    assert cluster.turn(4, after=LOST_WITHIN, stopping=True).removing == 1
    assert cluster.to_go == Going()


def test_a_spark_that_does_not_tell_who_is_decommissioned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(decommissions=True)

    def absent(id: str) -> bool:
        raise Py4JError("An error occurred: Method isExecutorActive([]) does not exist")

    monkeypatch.setattr(cluster.backend, "isExecutorActive", absent)
    seen = cluster.turn(4)
    assert (seen.registered, seen.removing) == (4, 0)


def test_an_executor_that_was_killed_is_given_time_to_go() -> None:
    cluster = Cluster()
    cluster.backend.master_is_there = False
    cluster.turn(3)
    cluster.backend.master_is_there = True
    assert cluster.turn(3, after=KILL_AGAIN_AFTER - 1).registered == 4
    assert len(cluster.backend.registered) == 4
    cluster.turn(3, after=1)
    assert len(cluster.backend.registered) == 3


def test_one_that_the_cluster_manager_has_not_taken_note_of_is_killed_again_at_once() -> None:
    cluster = Cluster()
    cluster.backend.master_is_there = cluster.backend.master_answers = False
    cluster.turn(3)
    cluster.backend.master_is_there = True
    cluster.turn(3)
    assert len(cluster.backend.registered) == 3


def test_a_decommissioned_executor_whose_kill_was_lost_is_killed_again() -> None:
    cluster = Cluster(decommissions=True)
    cluster.turn(3)
    assert len(cluster.backend.decommissioned) == 1
    cluster.backend.master_is_there = False
    assert cluster.turn(3, after=LEAVE_WITHIN - 1).registered == 4
    assert not cluster.backend.pending
    cluster.turn(3, after=1)
    assert list(cluster.backend.pending) == cluster.backend.decommissioned
    cluster.backend.master_is_there = True
    cluster.turn(3, after=KILL_AGAIN_AFTER)
    assert len(cluster.backend.registered) == 3


def test_executors_are_asked_for_while_streaming_gives_no_answer() -> None:
    cluster = Cluster()
    cluster.streaming_answers.clear()
    assert cluster.turn(6).registered == 4
    assert cluster.spark.targets == [6]
    cluster.streaming_answers.set()


def test_none_is_removed_while_nobody_knows_where_receivers_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keeper_module, "PINS_WITHIN", 0.01)
    cluster = Cluster()
    cluster.turn(4)
    cluster.streaming_answers.clear()
    seen = cluster.turn(3)
    assert seen.blocked == (
        "where receivers run cannot be told: an executor may host one, so none is removed"
    )
    assert (seen.registered, seen.removing) == (4, 0)
    cluster.streaming_answers.set()
    monkeypatch.setattr(keeper_module, "PINS_WITHIN", HANGS)
    assert cluster.turn(3).blocked is None
    assert len(cluster.backend.registered) == 3


def test_a_spark_that_does_not_tell_where_receivers_are_has_none_removed() -> None:
    cluster = Cluster()
    cluster.receivers = None
    assert "where receivers run cannot be told" in cluster.turn(1).blocked
    assert len(cluster.backend.registered) == 4


def test_the_executors_of_receivers_stay() -> None:
    cluster = Cluster()
    cluster.receivers = Receivers({"3": 2, "0": 1})
    assert "2 executor(s) hold receivers" in cluster.turn(1).blocked
    assert cluster.backend.registered == {"0", "3"}


FITTING = Rule(fitting=True)


def hosted(unsettled: str = "", waiting: str | None = None, **per_executor: int) -> Receivers:
    """So many receivers of three on these executors, of which the names begin with an x."""
    return Receivers(
        {name[1:]: number for name, number in per_executor.items()},
        total=3,
        placed=dict.fromkeys(range(3), "0"),
        unsettled=frozenset(unsettled),
        waiting=waiting,
    )


def test_an_executor_with_receivers_goes_once_they_have_moved() -> None:
    cluster = Cluster(rule=FITTING)
    cluster.receivers = hosted(x3=1, x2=1, x1=1)
    # 0 has none, and 3 is the youngest of the others.
    assert cluster.turn(2).blocked == "executor(s) 3 go once no receiver needs them"
    assert cluster.backend.registered == {"1", "2", "3"}
    assert cluster.to_go == Going(frozenset("3"), frozenset("0"))
    cluster.receivers = hosted(x2=1, x1=2, waiting="it is told why")
    cluster.receivers = replace(cluster.receivers, unsettled=frozenset("3"))
    assert cluster.turn(2, after=1).blocked == "it is told why"
    assert cluster.to_go == Going(frozenset("3"))
    cluster.receivers = hosted(x2=1, x1=2)
    assert cluster.turn(2, after=1).blocked is None
    assert cluster.turn(2, after=1).registered == 2
    assert cluster.backend.registered == {"1", "2"}
    assert cluster.to_go == Going()


@pytest.mark.parametrize("rule", [V1, FITTING])
def test_one_to_which_a_receiver_is_on_its_way_does_not_go_for_having_none(rule: Rule) -> None:
    cluster = Cluster(rule=rule)
    cluster.receivers = replace(hosted(x2=1, x1=2), coming={"3": 1})
    cluster.turn(3)
    assert cluster.backend.registered == {"1", "2", "3"}


def test_a_choice_that_is_called_off_is_told() -> None:
    cluster = Cluster(rule=FITTING)
    cluster.receivers = hosted(x3=1, x2=1, x1=1, x0=1)
    cluster.turn(3)
    assert cluster.to_go == Going(frozenset("3"))
    cluster.turn(4, after=1)
    assert cluster.to_go == Going()
    assert len(cluster.backend.registered) == 4


def test_what_can_not_be_told_for_a_moment_calls_nothing_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(rule=FITTING)
    cluster.receivers = hosted(x3=1, x2=1, x1=1, x0=1)
    cluster.turn(3)
    monkeypatch.setattr(keeper_module, "PINS_WITHIN", 0.01)
    cluster.streaming_answers.clear()
    assert "where receivers run cannot be told" in cluster.turn(3, after=1).blocked
    assert cluster.to_go == Going(frozenset("3"))
    cluster.streaming_answers.set()


def test_no_executor_goes_whose_core_the_receivers_need() -> None:
    cluster = Cluster(rule=FITTING)
    cluster.spark.cores = 1
    cluster.receivers = hosted(x3=1, x2=1, x1=1)
    blocked = cluster.turn(3).blocked
    assert "would not run all 3 receivers and a task of a batch beside them" in blocked
    assert len(cluster.backend.registered) == 4
    assert cluster.to_go == Going()


@pytest.mark.parametrize("rule", [V1, FITTING])
def test_what_receivers_took_on_it_is_processed_before_an_executor_goes(rule: Rule) -> None:
    cluster = Cluster(rule=rule)
    cluster.receivers = hosted(x1=1, x2=1, x0=1, unsettled="3")
    assert cluster.turn(3).blocked == "executor(s) 3 go once no receiver needs them"
    assert len(cluster.backend.registered) == 4
    cluster.receivers = hosted(x1=1, x2=1, x0=1)
    assert cluster.turn(3, after=1).blocked is None
    assert cluster.backend.registered == {"0", "1", "2"}


@pytest.mark.parametrize("rule", [V1, FITTING])
def test_one_that_a_receiver_is_on_its_way_to_is_not_told_to_leave(rule: Rule) -> None:
    cluster = Cluster(rule=rule)
    cluster.receivers = replace(hosted(x0=2, x1=2, x2=2), coming={"3": 1})
    seen = cluster.turn(3)
    assert cluster.backend.registered == {"0", "1", "2", "3"}
    if rule is V1:
        assert seen.blocked.startswith("4 executor(s) hold receivers and are never removed")
    assert cluster.to_go == Going(frozenset("3") if rule is FITTING else frozenset())


@pytest.mark.parametrize("rule", [V1, FITTING])
def test_none_is_removed_while_the_program_is_being_ended(rule: Rule) -> None:
    """Its receivers have ended, and what they took lies on their executors until a batch has it."""
    cluster = Cluster(rule=rule)
    cluster.receivers = hosted(x0=1, x1=1, x2=1, x3=1)
    cluster.turn(2)
    cluster.receivers = NO_RECEIVERS
    blocked = cluster.turn(2, after=1, stopping=True).blocked
    assert blocked == "the program is being ended: none is removed until it has"
    assert len(cluster.backend.registered) == 4
    assert cluster.turn(2, after=1).blocked is None
    assert len(cluster.backend.registered) == 2


@pytest.mark.parametrize(
    ("said", "fitting"), [(None, False), ("never", False), ("fitting", True), ("sometimes", False)]
)
def test_the_rule_is_a_setting(
    said: str | None, fitting: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = {"spark.task.cpus": "2", **({REMOVAL: said} if said else {})}
    conf = SimpleNamespace(get=lambda name, default: settings.get(name, default))
    assert rule_of(SimpleNamespace(getConf=lambda: conf)) == Rule(fitting, task_cpus=2)
    told = "".join(capfd.readouterr())
    assert ("must be never or fitting; never it is" in told) == (said == "sometimes")


def test_each_scale_down_waits_for_the_receivers_that_are_being_started() -> None:
    cluster = Cluster()
    cluster.receivers = Receivers({"0": 1}, unplaced=1)
    assert cluster.turn(3).blocked == "1 receiver(s) are being started; waiting for them"
    cluster.turn(4, after=10)  # it is called off
    seen = cluster.turn(3, after=PLACING_WITHIN)
    assert seen.blocked == "1 receiver(s) are being started; waiting for them"
    assert len(cluster.backend.registered) == 4
    assert cluster.turn(3, after=PLACING_WITHIN).blocked is None  # but not for ever
    assert len(cluster.backend.registered) == 3


def test_a_context_that_spark_itself_has_stopped_is_no_measurement() -> None:
    cluster = Cluster()
    cluster.spark.stopped = True
    with pytest.raises(NotReady, match="Spark has stopped its SparkContext"):
        cluster.turn(3)
    assert cluster.spark.targets == []
