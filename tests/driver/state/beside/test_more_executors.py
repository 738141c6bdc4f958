"""Executors that are added for a while, in the driver's own control; its cluster is played."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.driver.executors.control import ExecutorControl
from dagster_sparkscale.driver.operation_order import Admission
from dagster_sparkscale.driver.request import NotReady
from dagster_sparkscale.driver.spark.private import PrivateSpark
from dagster_sparkscale.driver.state.beside.more_executors import MoreExecutors
from tests.driver.backend import Cluster, control_of
from tests.driver.serving import options
from tests.waiting import HANGS, wait_for


class Scene:
    """A driver with four executors, to which two are to be added."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.control = control_of(self.cluster)
        self.stopping = False

    def more(self, target: int = 6, within: float = HANGS) -> MoreExecutors:
        return MoreExecutors(self.control, target, within, lambda: self.stopping)

    def come(self, *ids: str) -> None:
        self.cluster.backend.registered |= set(ids)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_they_are_there_once_all_have_registered(scene):
    requested = scene.cluster.spark.requestTotalExecutors

    def come(target: int, *_: Any) -> bool:
        scene.come(*"0123456789"[:target])
        return requested(target)

    scene.cluster.spark.requestTotalExecutors = come
    more = scene.more()
    assert more.why_not_there() is None
    assert (scene.control.requested, scene.control.staying) == (6, 6)
    more.put_back()
    assert scene.control.requested == 4
    wait_for("them to go", lambda: len(scene.cluster.backend.registered) == 4)


def test_what_does_not_come_is_not_waited_for_for_ever_and_is_asked_for_once(scene):
    more = scene.more(within=0.2)
    assert more.why_not_there() == "4 of 6 executors are there after 0 s"
    scene.come("4", "5")
    wait_for("them to be seen", lambda: scene.control.staying == 6)
    assert more.why_not_there() is None
    more.put_back()
    assert scene.control.requested == 4


def test_one_that_leaves_is_not_there(scene):
    scene.cluster.backend.master_is_there = False  # so it stays for a while
    scene.control.set_target(3)
    wait_for("one to be told to leave", lambda: scene.control.staying == 3)
    assert scene.more(4, within=0.2).why_not_there() == "3 of 4 executors are there after 0 s"


def test_a_stop_ends_the_wait(scene):
    scene.control.look.now(HANGS)
    scene.stopping = True
    assert (scene.more().why_not_there() or "").startswith("4 of 6 executors are there")


def test_a_number_that_somebody_sets_meanwhile_stays(scene):
    more = scene.more(within=0.0)
    more.why_not_there()
    scene.control.set_target(5)
    why = "somebody has set the number of executors to 5 meanwhile"
    assert more.why_not_there() == why
    more.put_back()
    assert scene.control.requested == 5


@pytest.mark.parametrize("number", [2, 5, 8])
def test_where_somebody_has_set_a_number_since_it_was_decided_none_are_added(scene, number):
    """As while the state is read, which may take minutes, or while the lease is waited for."""
    with suppress(NotReady):
        scene.control.set_target(number)
    more = MoreExecutors(scene.control, 6, HANGS, lambda: False, had=4)
    why = f"somebody has set the number of executors to {number} meanwhile"
    assert more.why_not_there() == why
    assert scene.control.requested == number
    more.put_back()
    assert scene.control.requested == number


def test_also_where_it_is_the_same_number(scene):
    more = scene.more(within=0.0)
    more.why_not_there()
    scene.control.set_target(6)
    more.put_back()
    assert scene.control.requested == 6


def test_where_the_program_does_not_run_none_are_added():
    control = ExecutorControl(options(), PrivateSpark(), Admission())
    more = MoreExecutors(control, 6, HANGS, lambda: False)
    assert more.why_not_there() == "the driver is starting: executors cannot be added now"
    more.put_back()
    assert control.requested == 2


def running(initial: int) -> ExecutorControl:
    """One whose look is never asked: nothing but the numbers counts."""
    admission = Admission()
    admission.phase, admission.attached = "running", True
    begin = replace(options(), initial_executors=initial)
    control = ExecutorControl(begin, PrivateSpark(), admission)
    control.look.wait = lambda *_: False
    return control


@given(st.integers(1, 9), st.lists(st.one_of(st.integers(1, 9), st.none()), max_size=6))
def test_whatever_is_set_meanwhile_stands_and_else_what_was(initial, steps):
    """A step sets a number, as a person does, or raises it by two for a while."""
    control, stands, lent = running(initial), initial, False
    for number in steps:
        if number is None:
            control.raise_to(control.requested + 2)
            lent = True
        else:
            with suppress(NotReady):  # nobody has told the cluster manager; the number stands
                control.set_target(number)
            stands, lent = number, False
    assert control.requested > stands if lent else control.requested == stands
    control.put_back()
    control.put_back()
    assert control.requested == stands
