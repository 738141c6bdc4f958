"""What becomes of a driver that was started is awaited."""

from dataclasses import replace

import pytest

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.lifecycle import reconcile as module
from dagster_sparkscale.lifecycle.jobs import describe, story_of
from dagster_sparkscale.lifecycle.reconcile import Action, StartFailed
from dagster_sparkscale.observe.status import Query
from tests.in_memory.cluster import MemoryCluster, World
from tests.lifecycle.reconciling import STREAM, start


def crash(world: World):
    def on_submit(kept):
        kept.log = [f"line {number}" for number in range(100)]
        world.end(kept.driver.stream)

    return on_submit


class TestWaiting:
    def test_a_program_that_takes_its_time_is_waited_for(self, world):
        looks = []

        def look(kept):
            looks.append(1)
            ready = len(looks) > 3
            kept.reachable = len(looks) > 1
            kept.queries = (Query("q", active=True),) if ready else ()

        world.on_look = look
        outcome = start(world)
        assert len(looks) == 4
        assert outcome.status.queries

    def test_a_query_that_has_ended_by_then_is_not_the_one_that_is_waited_for(self, world):
        states = iter([False, False, True])

        def look(kept):
            kept.queries = (Query("q", active=next(states)),)

        world.on_look = look
        outcome = start(world)
        assert outcome.status.queries == (Query("q", active=True),)
        assert next(states, "seen to the end") == "seen to the end"

    def test_a_driver_whose_agent_was_not_known_yet_is_told_as_it_is_once_it_was_asked(self, world):
        def announced(kept):
            kept.driver = replace(kept.driver, state=DriverState.RUNNING, agent_url="http://memory")

        def submitted(kept):
            kept.driver = replace(kept.driver, state=DriverState.STARTING, agent_url=None)
            world.on_look = announced
            world.on_find = lambda stream: announced(kept)

        world.on_submit = submitted
        outcome = start(world)
        assert outcome.status is not None
        assert story_of(STREAM, outcome, None)["state"] == "running"

    def test_running_out_of_time_is_no_failure(self, world, monkeypatch):
        world.on_look = lambda kept: setattr(kept, "queries", ())
        monkeypatch.setattr(module, "START_WAIT", 0)
        outcome = start(world)
        assert outcome.action is Action.STARTED
        assert "no query has started after" in describe(outcome)

    def test_an_agent_that_never_answered_is_said_to_be_so(self, world, monkeypatch):
        world.on_look = lambda kept: setattr(kept, "reachable", False)
        monkeypatch.setattr(module, "START_WAIT", 0)
        outcome = start(world)
        assert outcome.status is None
        assert "its agent has not answered after" in describe(outcome)

    def test_a_driver_that_ends_at_once_fails_the_start_with_its_last_log_lines(self, world):
        world.on_submit = crash(world)
        with pytest.raises(StartFailed) as failed:
            start(world)
        text = str(failed.value)
        assert text.startswith("driver 1 of 'clicks' ended before its first query (exit code 1)")
        assert text.endswith("line 98\nline 99")
        assert "line 60" in text and "line 59" not in text

    def test_a_driver_that_ends_while_it_is_waited_for_fails_the_start(self, world):
        def look(kept):
            kept.queries = ()
            world.end("clicks", exit_reason="killed by signal 9")

        world.on_look = look
        with pytest.raises(StartFailed, match="killed by signal 9"):
            start(world)

    def test_a_driver_that_is_stopped_while_it_is_waited_for_is_no_failure(self, world):
        def look(kept):
            kept.queries = ()
            world.end("clicks", DriverState.STOPPED)

        world.on_look = look
        assert start(world).driver.state is DriverState.STOPPED

    def test_nor_is_an_outage_of_the_cluster_manager_meanwhile(self, world, monkeypatch):
        find, asked = MemoryCluster.find, []

        def fails_once(cluster, stream):
            asked.append(stream)
            if len(asked) == 2:
                world.streams["clicks"].queries = (Query("counts", active=True),)
                raise ClusterError("the API server gives no answer")
            return find(cluster, stream)

        monkeypatch.setattr(MemoryCluster, "find", fails_once)
        world.on_submit = lambda kept: setattr(kept, "queries", ())
        outcome = start(world)
        assert len(asked) == 2
        assert outcome.driver.epoch == 1 and outcome.status.queries[0].active

    def test_another_driver_while_it_is_waited_for_ends_the_wait(self, world):
        def look(kept):
            kept.queries = ()
            if kept.driver.epoch == 1:
                world.end("clicks")
                world.run(STREAM)

        world.on_look = look
        outcome = start(world)
        assert outcome.driver.epoch == 2
        # Which is not what this start has done.
        assert describe(outcome) == (
            "started driver 1, and driver 2 has come after it (memory process 2)"
        )
