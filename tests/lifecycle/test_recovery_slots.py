"""A driver whose real-time queries lacked slots is followed by one that has them, or by none."""

import pytest

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.declare.policies import RecoveryPolicy
from dagster_sparkscale.driver.settings import REALTIME_SLOTS
from dagster_sparkscale.lifecycle.jobs import describe
from dagster_sparkscale.lifecycle.reconcile import Action
from dagster_sparkscale.lifecycle.recovery import recover
from dagster_sparkscale.observe.end_report import Slots
from tests.fakes import driver, structured
from tests.lifecycle.reconciling import start, submissions

AT_ONCE = RecoveryPolicy(first_delay=1e-9, longest_delay=1e-9)
REFUSED = Slots(needed=6, free=1, registered=1)


def stream(maximum: int):
    return structured(autoscale=RatioPolicy(max_executors=maximum), recovery=AT_ONCE)


def test_the_next_driver_has_enough(world):
    of = stream(8)
    world.run(of, executors=1)
    world.end("clicks", slots=REFUSED)
    outcome = start(world, of, cause="recovery", failed_epoch=1)
    assert outcome.action is Action.STARTED
    record = world.cluster.store().read("clicks")
    assert (record.executors, record.slots.needed) == (6, 6)
    assert world.streams["clicks"].settings[REALTIME_SLOTS] == "6"
    assert "begins with 6 executors or more, and waits for 6 slots" in describe(outcome)


def test_where_there_can_be_no_more_it_is_not_tried(world):
    of = stream(4)
    world.run(of, executors=1)
    world.end("clicks", slots=REFUSED)
    outcome = start(world, of, cause="recovery", failed_epoch=1)
    assert outcome.action is Action.HELD
    assert "giving up; mend it and materialize the stream to start it again" in outcome.reason
    assert "raise max_executors to 6" in outcome.reason
    assert submissions(world) == ["submit clicks 1"]
    # Once more are allowed, it goes on by itself.
    assert start(world, stream(6), cause="recovery", failed_epoch=1).action is Action.STARTED


@pytest.mark.parametrize("hopeless", [None, "it lacks slots"])
def test_what_can_not_work_is_given_up_at_once(hopeless):
    failed = driver(DriverState.FAILED, ended_at=1000.0, exit_reason="exit code 1")
    found = recover(AT_ONCE, failed, [], now=2000.0, hopeless=hopeless)
    assert getattr(found, "gave_up", False) is (hopeless is not None)
    assert hopeless is None or found.reason.startswith(f"driver 1 failed (exit code 1); {hopeless}")
