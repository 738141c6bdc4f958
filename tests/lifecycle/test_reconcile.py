"""A stream is started, attached to or restarted, and what becomes of it is awaited."""

import contextlib
import threading
from dataclasses import replace

import pytest

from dagster_sparkscale.clusters.agents.change import SetExecutors
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import ClusterError, OperationInProgress, StaleEpoch
from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.declare.policies import RecoveryPolicy
from dagster_sparkscale.lifecycle.jobs import describe, story_of
from dagster_sparkscale.lifecycle.reconcile import Action, reconcile
from dagster_sparkscale.lifecycle.recovery import Restart, recover
from dagster_sparkscale.observe.status import Reconfiguration
from tests.lifecycle.reconciling import STREAM, start, submissions
from tests.waiting import HANGS


class TestStart:
    def test_a_stream_that_never_ran_is_started(self, world):
        outcome = start(world)
        assert outcome.action is Action.STARTED
        assert outcome.driver.epoch == 1
        assert outcome.status.queries[0].active
        assert world.calls == ["prepare", "submit clicks 1"]
        assert describe(outcome).startswith("started driver 1 (memory process 1); its first query")

    def test_a_driver_that_runs_is_attached_to(self, world):
        world.run(STREAM)
        outcome = start(world)
        assert outcome.action is Action.ATTACHED
        assert (outcome.driver.epoch, outcome.status.epoch) == (1, 1)
        assert submissions(world) == ["submit clicks 1"]
        assert describe(outcome) == ("driver 1 runs already (memory process 1): attached to it")

    def test_one_that_only_starts_is_told_apart_as_it_may_never_come_up(self, world):
        kept = world.run(STREAM)
        kept.driver = replace(kept.driver, state=DriverState.STARTING)
        told = describe(start(world))
        assert told.startswith("driver 1 is starting already (memory process 1): attached to it;")
        assert told.endswith("restart the stream")

    def test_what_is_attached_to_is_wished_to_run_whatever_a_stop_that_failed_has_said(self, world):
        world.run(STREAM)
        with world.cluster.lease("clicks", "stop run") as lease:
            lease.write(replace(lease.record, desired="stopped"))
        assert start(world).action is Action.ATTACHED
        assert world.cluster.store().read("clicks").desired == "running"

    def test_a_driver_whose_agent_is_silent_is_attached_to_and_not_started_twice(self, world):
        world.run(STREAM).reachable = False
        outcome = start(world)
        assert (outcome.action, outcome.status) == (Action.ATTACHED, None)
        assert submissions(world) == ["submit clicks 1"]

    @pytest.mark.parametrize("state", [DriverState.UNKNOWN, DriverState.STARTING])
    def test_a_driver_that_may_run_is_not_started_twice(self, world, state):
        world.run(STREAM)
        world.end("clicks", state)
        assert start(world).action is Action.ATTACHED
        assert submissions(world) == ["submit clicks 1"]

    @pytest.mark.parametrize("state", [DriverState.FAILED, DriverState.STOPPED])
    def test_a_stream_that_has_ended_is_started_with_the_next_epoch(self, world, state):
        world.run(STREAM)
        world.end("clicks", state)
        outcome = start(world)
        assert (outcome.action, outcome.driver.epoch) == (Action.STARTED, 2)
        assert [s.cause for s in world.cluster.history("clicks")] == ["manual", "manual"]

    def test_the_lease_is_given_back_before_the_first_query_is_awaited(self, world):
        held = []
        world.on_look = lambda kept: held.append("clicks" in world.leases)
        start(world)
        assert held == [False]

    def test_a_lease_that_another_holds_refuses(self, world):
        with (
            world.cluster.lease("clicks", "stop run 2"),
            pytest.raises(OperationInProgress, match="stop run 2"),
        ):
            start(world, lease_wait=0)
        assert submissions(world) == []

    def test_a_lease_that_another_gives_back_in_time_is_waited_for(self, world):
        with contextlib.ExitStack() as another:
            another.enter_context(world.cluster.lease("clicks", "stop run 2"))
            world.on_wait = lambda stream: another.close()
            assert start(world).action is Action.STARTED


class TestRestart:
    def test_a_running_driver_is_stopped_gracefully_first(self, world):
        world.run(STREAM)
        outcome = start(world, restart=True)
        assert (outcome.action, outcome.driver.epoch) == (Action.RESTARTED, 2)
        assert world.calls[2:] == [
            "check",
            "stop clicks gracefully",
            "prepare",
            "submit clicks 2",
        ]

    @pytest.mark.parametrize("state", [DriverState.FAILED, DriverState.STOPPED])
    def test_one_that_has_ended_is_just_started(self, world, state):
        world.run(STREAM)
        world.end("clicks", state)
        assert start(world, restart=True).action is Action.RESTARTED
        assert not any(call.startswith("stop") for call in world.calls)

    def test_one_that_never_ran_is_started(self, world):
        assert start(world, restart=True).action is Action.STARTED

    def test_what_would_keep_the_new_one_from_a_launch_is_found_while_the_old_one_runs(self, world):
        world.run(STREAM)

        def gone(stream):
            raise ClusterError("there is no file jobs/clicks.py")

        world.on_check = gone
        with pytest.raises(ClusterError, match="there is no file"):
            start(world, restart=True)
        assert world.cluster.find("clicks").state is DriverState.RUNNING
        assert world.cluster.store().read("clicks").desired == "running"

    def test_cut_off_between_stop_and_start_it_is_a_failure_that_recovery_completes(
        self, world, monkeypatch
    ):
        class Killed(BaseException):
            """What Dagster does to a run that is terminated."""

        def killed(*_, **__):
            raise Killed

        world.run(STREAM)
        with monkeypatch.context() as patched, pytest.raises(Killed):
            patched.setattr(type(world.cluster), "submit", killed)
            start(world, restart=True)
        driver, record = world.cluster.find("clicks"), world.cluster.store().read("clicks")
        assert (driver.state, record.desired) == (DriverState.FAILED, "restarting")
        later = driver.ended_at + 3600
        decision = recover(RecoveryPolicy(), driver, world.cluster.history("clicks"), later)
        assert isinstance(decision, Restart)
        assert start(world, cause="recovery", failed_epoch=1).driver.epoch == 2
        assert world.cluster.store().read("clicks").desired == "running"


class TestOneStart:
    """What counts for one start alone, and for one driver alone."""

    def test_settings_are_of_that_start_alone(self, world):
        world.run(STREAM)
        start(world, restart=True, settings={"spark.x": "1"})
        assert world.streams["clicks"].settings == {"spark.x": "1"}
        start(world, restart=True)
        assert world.streams["clicks"].settings == {}

    def test_a_driver_is_followed_for_as_long_as_it_is_asked_to_be(self, world):
        looks = []

        def look(kept):
            looks.append(1)
            kept.queries = ()

        world.on_look = look
        outcome = start(world, start_wait=0)
        assert (outcome.action, len(looks)) == (Action.STARTED, 1)

    def test_a_wait_that_ends_while_state_is_changed_says_so(self, world):
        doing = (Reconfiguration("p1", "q", "undoing", 1000.0),)
        world.on_look = lambda kept: setattr(kept, "reconfigurations", doing)
        told = describe(start(world, start_wait=0))
        assert told.endswith("after 0 s it is reconfiguring the state of query 'q': undoing")

    def test_while_state_is_changed_a_query_that_runs_is_not_the_end_of_the_wait(self, world):
        doing = Reconfiguration("p1", "q", "rewriting", 1000.0)
        steps = [doing, replace(doing, step="over", outcome="changed")]

        def look(kept):
            kept.reconfigurations = (steps.pop(0) if len(steps) > 1 else steps[0],)

        world.on_look = look
        assert start(world).status.state_changes[0].outcome == "changed"

    def test_the_driver_that_it_was_asked_about_is_restarted(self, world):
        world.run(STREAM)
        assert start(world, restart=True, epoch=1).driver.epoch == 2

    def test_another_driver_is_left_alone(self, world):
        world.run(STREAM)
        start(world, restart=True)
        with pytest.raises(StaleEpoch, match="asked for driver 1, and driver 2 is running now;"):
            start(world, restart=True, epoch=1)
        assert len(submissions(world)) == 2

    def test_one_that_was_stopped_since_stays_so(self, world):
        world.run(STREAM)
        world.end("clicks", DriverState.STOPPED)
        with pytest.raises(StaleEpoch, match="and driver 1 is stopped now; nothing was done"):
            start(world, epoch=1)
        assert len(submissions(world)) == 1

    def test_one_that_is_not_known_any_more_is_not_begun_anew(self, world):
        with pytest.raises(StaleEpoch, match="asked for driver 1, and none is known any more"):
            start(world, epoch=1)


class TestExecutors:
    """A new driver begins with what the one before had."""

    def rescaled(self, world, target):
        driver = world.cluster.find("clicks")
        with world.cluster.lease("clicks", "rescale run") as lease:
            world.cluster.change(driver, SetExecutors(target), lease=lease)

    def test_the_first_begins_with_what_is_declared(self, world):
        start(world)
        assert world.streams["clicks"].requested == 3

    @pytest.mark.parametrize(
        "how",
        [
            {"restart": True},
            {"cause": "recovery", "failed_epoch": 1},
            {},
        ],
        ids=["a restart by hand", "recovery", "a start after a stop"],
    )
    def test_the_next_begins_with_what_was_last_requested(self, world, how):
        start(world)
        self.rescaled(world, 5)
        if "failed_epoch" in how:
            world.end("clicks")
        elif not how:
            world.end("clicks", DriverState.STOPPED)
        assert start(world, **how).driver.epoch == 2
        assert world.streams["clicks"].requested == 5
        # And so does the one after it, of which nothing was requested.
        start(world, restart=True)
        assert world.streams["clicks"].requested == 5


@pytest.mark.parametrize("before", ["never started", "failed"])
def test_two_at_once_start_one_driver(world, before):
    if before == "failed":
        world.run(STREAM)
        world.end("clicks")
        world.calls.clear()
    together = threading.Barrier(2)
    outcomes = []

    def one():
        together.wait(HANGS)
        outcomes.append(start(world, name=threading.current_thread().name, lease_wait=HANGS))

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANGS)
    assert sorted(o.action.value for o in outcomes) == ["attached", "started"]
    assert len({o.driver.epoch for o in outcomes}) == 1
    assert len(submissions(world)) == 1


def test_a_launch_that_fails_leaves_the_lease_free(world):
    class Broken(type(world.cluster)):
        def submit(self, stream, lease, cause="manual", settings=None, pinned=None):
            raise ClusterError("no such program")

    with pytest.raises(ClusterError, match="no such program"):
        reconcile(Broken(world=world.key), STREAM, Requester("x"))
    assert not world.leases


def test_the_metadata_of_a_start_have_the_same_keys_whatever_was_seen(world):
    started = start(world)
    world.streams["clicks"].reachable = False
    silent = start(world)
    keys = [set(story_of(STREAM, o, None)) for o in (started, silent)]
    assert keys[0] == keys[1]
    shown = story_of(STREAM, started, "why not")
    assert shown["action"] == "started"
    assert shown["epoch"] == 1
    assert shown["reason"] == "why not"
    assert shown["executors_requested"] == 3
