import threading
from dataclasses import replace

import pytest

from dagster_sparkscale.autoscale import rescale as module
from dagster_sparkscale.autoscale.rescale import RescaleRequest, rescale
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import (
    AgentRefused,
    AgentUnreachable,
    ClusterError,
    OperationInProgress,
    StaleEpoch,
)
from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.clusters.requests import Refused
from dagster_sparkscale.declare.bounds import Bounds
from tests.fakes import altered, dstream, scaled
from tests.in_memory.cluster import MemoryAgent, MemoryCluster, World
from tests.in_memory.driver import status_of
from tests.waiting import HANGS

BOUNDS = Bounds(minimum=2, maximum=8, initial=2)
STREAM = scaled(min_executors=1, max_executors=20)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(module, "_POLL", 0)


def asked(target=None, delta=None, **fields) -> RescaleRequest:
    return RescaleRequest("clicks", target=target, delta=delta, **fields)


def run(**fields) -> Requester:
    return Requester("rescale run 1", **fields)


def carry_out(
    world: World, request: RescaleRequest, stream=STREAM, lines: list | None = None, **how
):
    tell = [].append if lines is None else lines.append
    return rescale(world.cluster, stream, request, run(tell=tell, **how))


class TestStory:
    def test_a_delta_counts_from_those_that_are_there_and_not_from_those_still_awaited(self, world):
        world.cores = 2
        world.run(STREAM, executors=2).requested = 5
        story = carry_out(world, asked(delta=1, wait=0))
        assert (story.registered_before, story.requested_before, story.target) == (2, 5, 3)
        assert world.streams["clicks"].requested == 3

    @pytest.fixture
    def leaving(self, world, monkeypatch):
        """Eight executors, of which six are leaving, one a look."""
        kept = world.run(STREAM, executors=8)
        kept.requested = 2

        def answer(kept):
            staying = max(2, kept.requested)
            return altered(status_of(kept), removing=max(0, kept.registered - staying))

        monkeypatch.setattr("tests.in_memory.cluster.status_of", answer)
        return world

    @pytest.mark.parametrize(("delta", "executors"), [(-1, 1), (3, 5)])
    def test_a_delta_does_not_count_from_those_that_are_leaving(self, leaving, delta, executors):
        lines = []
        story = carry_out(leaving, asked(delta=delta), lines=lines)
        assert story.target == executors
        assert lines[0].startswith("before: 7 registered, of which 5 are leaving, 2 requested")

    def test_as_many_as_are_wanted_are_not_there_while_some_of_them_are_leaving(
        self, world, monkeypatch
    ):
        world.run(STREAM, executors=3)
        looks = []

        def answer(kept):
            looks.append(kept.registered)
            return altered(status_of(kept), registered=3, removing=1 if len(looks) < 5 else 0)

        monkeypatch.setattr("tests.in_memory.cluster.status_of", answer)
        assert carry_out(world, asked(3)).ending == "reached"
        assert len(looks) == 5

    def test_up_and_reached(self, world):
        world.run(STREAM, executors=2)
        lines = []
        story = carry_out(world, asked(5), lines=lines)
        assert story.ending == "reached"
        assert (story.registered_before, story.requested_before) == (2, 2)
        assert (story.target, story.registered_after, story.missing) == (5, 5, 0)
        assert story.notes == []
        assert 0 <= story.requested_seconds <= story.seconds
        assert lines[0] == "before: 2 registered, 2 requested; requesting 5"
        assert lines[1].startswith("requested 5 executors after ")
        assert lines[2].startswith("pinned to 5 by rescale run 1 until ")
        assert lines[3:] == [f"{n} registered, 5 requested" for n in (3, 4, 5)]

    def test_down_and_reached(self, world):
        world.run(STREAM, executors=4)
        story = carry_out(world, asked(delta=-3))
        assert (story.ending, story.target, story.registered_after) == ("reached", 1, 1)

    def test_what_is_there_already_is_reached_and_asked_for_all_the_same(self, world):
        kept = world.run(STREAM, executors=3)
        kept.requested = 3
        assert carry_out(world, asked(3)).ending == "reached"
        assert world.calls[-1] == "scale clicks 3"

    def test_the_cluster_has_no_more_to_give(self, world):
        world.cores = 3
        world.run(STREAM, executors=2)
        story = carry_out(world, asked(6, wait=0))
        assert (story.ending, story.registered_after, story.missing) == ("short", 3, 3)
        assert story.notes == [
            "3 of 6 executors have not come yet; they stay requested",
            "no worker has 1 core and 1g of memory free for another executor: the one with most "
            "has 0 cores and 1048576 MiB free (of the cluster's 3 cores 0 are free, on 1 "
            "worker(s))",
        ]
        assert world.streams["clicks"].requested == 6

    def test_a_cluster_that_cannot_be_asked_is_said_to_be_so(self, world):
        world.cores, world.master_answers = 2, False
        world.run(STREAM, executors=2)
        story = carry_out(world, asked(3, wait=0))
        assert story.notes[-1] == "the cluster manager could not be asked what it has left"

    def test_executors_that_stay_are_counted_and_the_reason_given(self, world):
        kept = world.run(STREAM, executors=5)
        kept.blocked = "executor 3 holds a receiver"
        story = carry_out(world, asked(2, wait=0))
        assert (story.ending, story.missing) == ("short", -2)
        assert story.notes == ["executor 3 holds a receiver", "2 executors have not left yet"]

    def test_those_that_are_there_and_are_to_leave_are_told_of(self, world):
        """As when a node is taken back, and an executor on it has not left yet."""
        kept = world.run(STREAM, executors=3)
        kept.removing = 1
        story = carry_out(world, asked(3, wait=0))
        assert (story.ending, story.missing) == ("short", 0)
        assert story.notes == [
            "1 of the 3 that are registered are leaving, and have not left yet; others come in "
            "their place then"
        ]

    def test_an_outage_through_which_agents_are_asked_is_no_end(self, world, monkeypatch):
        """Nor any other: on Kubernetes it is the API server's."""
        world.run(STREAM, executors=2)
        status, find, failed = MemoryAgent.status, MemoryCluster.find, []

        def fails_once(what):
            if world.streams["clicks"].requested == 5 and what not in failed:
                failed.append(what)
                raise ClusterError("the API server gives no answer")

        monkeypatch.setattr(
            MemoryAgent, "status", lambda *given, **how: (fails_once("a"), status(*given, **how))[1]
        )
        monkeypatch.setattr(
            MemoryCluster, "find", lambda *given: (fails_once("find"), find(*given))[1]
        )
        assert carry_out(world, asked(5)).ending == "reached"
        assert sorted(failed) == ["a", "find"]

    def test_what_kept_executors_for_a_while_is_no_news_once_they_have_left(self, world):
        world.run(STREAM, executors=5).blocked = "executor 3 holds a receiver"
        story = carry_out(world, asked(2))
        assert (story.ending, story.notes) == ("reached", [])

    def test_a_newer_target_ends_the_wait(self, world):
        kept = world.run(STREAM, executors=2)

        def a_newer_request(kept):
            if kept.requested == 6 and kept.registered == 3:
                kept.requested = 2

        world.on_look = a_newer_request
        story = carry_out(world, asked(6))
        assert story.ending == "superseded"
        assert story.notes == ["a newer request set the target to 2"]
        assert kept.requested == 2
        # One of those that had come has left by now.
        assert story.registered_after == kept.registered == 2

    def test_an_answer_without_numbers_is_no_newer_target(self, world):
        class Forgetful(type(world.cluster)):
            def status(self, driver, **how):
                answer = super().status(driver, **how)
                if answer.requested == 5 and answer.registered == 3:
                    return altered(answer, registered=None, requested=None, spark_age=None)
                return answer

        world.run(STREAM, executors=2)
        cluster = Forgetful(world=world.key)
        story = rescale(cluster, STREAM, asked(5), run())
        assert (story.ending, story.registered_after, story.notes) == ("reached", 5, [])

    def test_the_request_is_made_under_the_lease_and_the_wait_is_not(self, world):
        held = []

        class Watched(type(world.cluster)):
            def status(self, driver, **how):
                held.append(("look", "clicks" in world.leases))
                return super().status(driver, **how)

            def change(self, driver, change, **how):
                held.append(("scale", "clicks" in world.leases))
                return super().change(driver, change, **how)

        world.run(STREAM, executors=2)
        rescale(Watched(world=world.key), STREAM, asked(4), run())
        assert held == [("look", True), ("scale", True), ("look", False), ("look", False)]

    @pytest.mark.parametrize("state", [DriverState.FAILED, DriverState.STOPPED])
    def test_the_driver_ends_while_executors_are_awaited(self, world, state):
        world.run(STREAM, executors=2)

        def the_driver_ends(kept):
            if kept.registered == 3:
                world.end("clicks", state)

        world.on_look = the_driver_ends
        story = carry_out(world, asked(6))
        assert story.ending == "gone"
        assert story.notes == ["the driver ended while the operation waited for executors"]

    @pytest.mark.parametrize("same_address", [False, True])
    def test_the_stream_is_started_again_while_executors_are_awaited(self, world, same_address):
        world.run(STREAM, executors=2)

        def another_driver_starts(kept):
            if kept.driver.epoch == 1 and kept.registered == 3:
                world.end("clicks", DriverState.STOPPED)
                world.run(STREAM, executors=2)
                # At the address of the old one it refuses the old one's token.
                world.streams["clicks"].refuses = "wrong token" if same_address else None

        world.on_look = another_driver_starts
        story = carry_out(world, asked(6))
        assert story.ending == "gone"
        assert world.streams["clicks"].requested == 2, "the new driver was left alone"

    def test_an_agent_that_is_silent_for_a_while_is_awaited(self, world):
        kept = world.run(STREAM, executors=2)
        silences = iter([True, False, False, True, True])

        def sometimes_silent(kept):
            if kept.requested == 6:
                kept.reachable = not next(silences, False)

        world.on_look = sometimes_silent
        lines = []
        assert carry_out(world, asked(6), lines=lines).ending == "reached"
        assert lines.count("the agent does not answer; waiting for it") == 2
        assert kept.registered == 6

    def test_with_no_time_to_wait_the_request_is_made_all_the_same(self, world):
        world.run(STREAM, executors=1)
        story = carry_out(world, asked(9, wait=0))
        assert story.ending == "short"
        assert "scale clicks 9" in world.calls

    def test_a_dstream_keeps_a_core_for_its_batches(self, world):
        stream = dstream(receivers=2)
        world.run(stream, executors=4)
        with pytest.raises(Refused, match="'clicks' has a minimum of 3"):
            carry_out(world, asked(2), stream=stream)


class TestRefusals:
    """Nothing is changed, and the text says why."""

    @pytest.fixture(autouse=True)
    def nothing_is_scaled(self, world):
        yield
        assert not any(call.startswith("scale") for call in world.calls)
        assert not world.leases

    def test_a_stream_that_was_never_started(self, world):
        with pytest.raises(Refused, match="'clicks' is not started: materialize its asset"):
            carry_out(world, asked(3))

    @pytest.mark.parametrize("state", [DriverState.FAILED, DriverState.STOPPED])
    def test_a_stream_that_has_ended(self, world, state):
        world.run(STREAM)
        world.end("clicks", state)
        with pytest.raises(Refused, match=f"'clicks' is {state.value}: materialize its asset"):
            carry_out(world, asked(3))

    def test_an_epoch_that_has_moved_on(self, world):
        world.run(STREAM)
        world.end("clicks")
        world.run(STREAM)
        with pytest.raises(StaleEpoch, match="decided for driver 1, but driver 2 runs by now"):
            carry_out(world, asked(3), epoch=1)

    def test_a_target_out_of_bounds(self, world):
        world.run(STREAM)
        with pytest.raises(Refused, match="maximum of 20"):
            carry_out(world, asked(21))

    def test_an_agent_that_cannot_be_reached(self, world):
        world.run(STREAM).reachable = False
        with pytest.raises(AgentUnreachable, match="does not answer"):
            carry_out(world, asked(3))

    def test_an_agent_that_refuses(self, world):
        world.run(STREAM).refuses = "wrong token"
        with pytest.raises(AgentRefused, match="wrong token"):
            carry_out(world, asked(3))

    def test_a_driver_that_does_not_know_its_executors(self, world):
        class NotYet(type(world.cluster)):
            def status(self, driver, **how):
                starting = replace(super().status(driver, **how), phase="starting")
                return altered(starting, registered=None)

        world.run(STREAM)
        with pytest.raises(AgentUnreachable, match=r"executors yet \(it is starting\)"):
            rescale(NotYet(world=world.key), STREAM, asked(delta=1), run())

    def test_a_lease_that_another_operation_holds(self, world):
        world.run(STREAM)
        with (
            world.cluster.lease("clicks", "stop run 7"),
            pytest.raises(OperationInProgress, match="stop run 7 has held 'clicks' since"),
        ):
            carry_out(world, asked(3), lease_wait=0)


def test_a_lease_that_is_given_back_in_time_is_waited_for(world):
    world.run(STREAM, executors=2)
    inside, leave = threading.Event(), threading.Event()

    def other_operation():
        with world.cluster.lease("clicks", "other"):
            inside.set()
            leave.wait(HANGS)

    other = threading.Thread(target=other_operation)
    other.start()
    assert inside.wait(HANGS)
    done = []
    waiting = threading.Thread(
        target=lambda: done.append(carry_out(world, asked(3), lease_wait=HANGS).ending)
    )
    waiting.start()
    assert world.streams["clicks"].requested == 2
    leave.set()
    other.join(HANGS)
    waiting.join(HANGS)
    assert done == ["reached"]


def test_each_rescale_asks_with_the_number_of_its_lease(world):
    world.run(STREAM, executors=2)
    carry_out(world, asked(3))
    carry_out(world, asked(2))
    first, second = world.numbers
    assert first is not None and second is not None and second > first
