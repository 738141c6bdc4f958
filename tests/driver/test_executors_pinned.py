"""Executors that receivers pin: which of them may go, and when."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from dagster_sparkscale.driver.executors import target as keeper_module
from dagster_sparkscale.driver.executors.guard import Going
from dagster_sparkscale.driver.executors.target import (
    PLACING_WITHIN,
    rule_of,
)
from dagster_sparkscale.driver.executors.victims import V1, Rule
from dagster_sparkscale.driver.receivers.tracker import NO_RECEIVERS, Receivers
from dagster_sparkscale.driver.request import NotReady
from dagster_sparkscale.driver.settings import REMOVAL
from tests.driver.backend import Cluster
from tests.waiting import HANGS


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
