"""A change of state partitions, carried out and followed: on a cluster in memory."""

from dataclasses import replace

import pytest

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import ClusterError, OperationInProgress, StaleEpoch
from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.clusters.requests import NotDone, Refused
from dagster_sparkscale.observe.status import Query
from dagster_sparkscale.state.plan import Asked, Settled
from dagster_sparkscale.state.reconfigure import CAUSE, ReconfigureRequest, reconfigure
from tests.fakes import QUERY
from tests.in_memory.cluster import World
from tests.state.following import STREAM, Run, submissions
from tests.state.saying import change, kept_by, plan, plays, runs, tells
from tests.waiting import HANGS

STEPS = ("checking", "measuring", "writing down", "rewriting", "verifying", "closing")


class TestDone:
    def steps(self):
        seconds: dict[str, float] = {}
        for number, step in enumerate(STEPS):
            yield tells(change(step=step, seconds=dict(seconds)))
            seconds[step] = number + 0.5
        yield tells(change(seconds=seconds))
        yield runs(8, change(seconds=seconds))

    def test_the_driver_is_restarted_with_the_plan_and_followed_through_its_first_batch(
        self, world
    ):
        plays(world, list(self.steps()))
        came = Run(world).came
        assert (came.driver.epoch, came.driver.state) == (2, DriverState.RUNNING)
        assert [each.outcome for each in came.results] == ["changed"]
        assert came.notes == ()
        assert plan(world.streams["clicks"]) == came.change.plan
        assert (came.change.plan.id, came.change.plan.partitions) == ("p1", 8)
        assert "stop clicks gracefully" in world.calls
        assert [each.cause for each in world.cluster.history("clicks")] == ["manual", CAUSE]
        assert world.records["clicks"].owner == "here"
        assert not world.leases

    def test_each_step_is_told_once_with_the_seconds_of_those_before(self, world):
        acts = [act for each in self.steps() for act in (each, each)]
        plays(world, acts)
        told = [line for line in Run(world).lines if line.startswith("query 'counts':")]
        assert told[1:] == [
            "query 'counts': checking",
            "query 'counts': measuring (checking took 0.5 s)",
            "query 'counts': writing down (measuring took 1.5 s)",
            "query 'counts': rewriting (writing down took 2.5 s)",
            "query 'counts': verifying (rewriting took 3.5 s)",
            "query 'counts': closing (verifying took 4.5 s)",
            "query 'counts': changed, 4 -> 8 partitions (closing took 5.5 s)",
        ]

    def test_steps_that_were_not_seen_are_told_of_with_the_next(self, world):
        seen = change(step="rewriting", seconds={"checking": 0.5, "measuring": 1.5})
        plays(world, [tells(seen), runs(8, change())])
        assert "query 'counts': rewriting (checking took 0.5 s, measuring took 1.5 s)" in (
            Run(world).lines
        )

    def test_a_step_that_goes_on_or_comes_again_is_told_with_the_seconds_since(self, world):
        acts = [
            tells(change(step="preparing", seconds={"checking": 0.0, "preparing": 0.0})),
            tells(change(step="copying", seconds={"checking": 0.0, "preparing": 15.5})),
            runs(8, change(seconds={"checking": 0.3, "preparing": 15.5, "copying": 2.0})),
        ]
        plays(world, acts)
        told = [line for line in Run(world).lines if line.startswith("query 'counts':")]
        assert told[1:] == [
            "query 'counts': preparing (checking took 0.0 s)",
            "query 'counts': copying (preparing took 15.5 s)",
            "query 'counts': changed, 4 -> 8 partitions (checking took 0.3 s, copying took 2.0 s)",
        ]

    def test_what_it_costs_is_told_before_anything_is_stopped(self, world):
        plays(world, [runs(8, change())])
        stopped_at = []
        lines = []

        def tell(line):
            lines.append(line)
            stopped_at.append("stop clicks gracefully" in world.calls)

        request = ReconfigureRequest(Asked(), "p1", HANGS)
        reconfigure(world.cluster, STREAM, request, Requester("x", tell=tell))
        assert lines[0].startswith("query 'counts': 4 -> 8 partitions, as declared")
        assert stopped_at[:2] == [False, False]

    def test_the_first_batch_is_waited_for(self, world):
        active = tells(change(), queries=(kept_by(partitions=8),))
        plays(world, [active, active, runs(8, change())])
        Run(world)
        assert world.streams["clicks"].batch_seconds is not None

    @pytest.mark.parametrize(("took", "seconds"), [(1.0, 120), (200.0, 400), (800.0, HANGS)])
    def test_a_driver_has_as_long_to_finish_its_batch_as_its_batches_take(
        self, world, monkeypatch, took, seconds
    ):
        world.streams["clicks"].batch_seconds = took
        timeouts = []
        stop = type(world.cluster).stop

        def noting(cluster, driver, lease, *, timeout, **more):
            timeouts.append(timeout)
            return stop(cluster, driver, lease, timeout=timeout, **more)

        monkeypatch.setattr(type(world.cluster), "stop", noting)
        plays(world, [runs(8, change())])
        Run(world)
        assert timeouts == [seconds]

    def test_a_batch_that_failed_is_none(self, world):
        failed = tells(change(), queries=(kept_by(partitions=8),), batch_seconds=1.0, failed=True)
        mended = tells(change(), failed=False)
        plays(world, [failed, failed, mended])
        Run(world)
        assert not world.streams["clicks"].failed

    def test_an_agent_that_is_silent_is_waited_for_and_told_of_once(self, world):
        silent, back = tells(reachable=False), tells(change(step="rewriting"), reachable=True)
        plays(world, [silent, silent, silent, back, runs(8, change())])
        run = Run(world)
        assert run.came.results[0].outcome == "changed"
        assert run.lines.count("the agent does not answer; waiting for it") == 1

    def test_one_that_has_the_number_already_counts(self, world):
        """As where two runs had the same plan."""
        plays(world, [runs(8, change(outcome="unchanged", reason="it has 8 partitions already"))])
        assert Run(world).came.results[0].outcome == "unchanged"

    def test_what_an_earlier_driver_has_left_is_not_mistaken_for_it(self, world):
        earlier = change(outcome="undone", reason="its driver was ended in the middle of it")

        def both(kept, id):
            runs(8, change())(kept, id)
            kept.reconfigurations = (replace(earlier, id="old"), *kept.reconfigurations)

        plays(world, [both])
        assert [each.id for each in Run(world).came.results] == ["p1"]

    def test_nothing_to_do_restarts_nothing(self, world):
        assert isinstance(Run(world, partitions=4).came, Settled)
        assert len(submissions(world)) == 1


class TestSeveralQueries:
    @pytest.fixture
    def world(self):
        it = World()
        it.run(STREAM, queries=(kept_by("a"), kept_by("b")), batch_seconds=1.0, ran=("a", "b"))
        return it

    BOTH = (kept_by("a", partitions=8), kept_by("b", partitions=8))

    def test_all_are_waited_for(self, world):
        a, b = change(query="a"), change(query="b")
        plays(
            world,
            [
                tells(a),
                tells(a, queries=self.BOTH[:1], ran=("a",), batch_seconds=1.0),
                tells(a, replace(b, step="rewriting", outcome=None)),
                tells(a, b),
                tells(a, b, queries=self.BOTH),
                tells(a, b, ran=("a", "b")),
            ],
        )
        came = Run(world).came
        assert [each.query for each in came.results] == ["a", "b"]
        assert world.streams["clicks"].ran == ("a", "b")

    def test_one_that_was_undone_fails_the_run_once_the_others_are_through(self, world):
        a = change(query="a", outcome="undone", reason="a key is missing")
        b = change(query="b")
        alive = (kept_by("a"), kept_by("b", partitions=8))
        plays(
            world,
            [
                tells(a),
                tells(a, queries=alive, ran=("a",), batch_seconds=1.0),
                tells(a, b, ran=("a", "b")),
            ],
        )
        with pytest.raises(NotDone) as failed:
            Run(world)
        assert str(failed.value) == (
            "query 'a': undone: a key is missing. Driver 2 runs query 'a' with 4 partitions, "
            "query 'b' with 8 partitions"
        )


class TestRefused:
    def test_what_is_refused_stops_nothing(self, world):
        with pytest.raises(Refused, match="partitions = 5: must divide 16"):
            Run(world, partitions=5)
        assert world.streams["clicks"].driver.state is DriverState.RUNNING
        assert len(submissions(world)) == 1

    def test_a_silent_agent(self, world):
        world.streams["clicks"].reachable = False
        with pytest.raises(Refused, match="its agent has not answered: try again"):
            Run(world)

    def test_an_agent_that_answers_for_another_driver(self, world):
        world.streams["clicks"].refuses = "it is another's"
        with pytest.raises(Refused, match="its agent has not answered: try again"):
            Run(world)

    def test_a_driver_that_it_was_not_asked_for(self, world):
        with pytest.raises(StaleEpoch, match="asked for driver 7, and driver 1 has come since"):
            Run(world, epoch=7)
        with pytest.raises(StaleEpoch, match="asked for driver 7, and nothing is known of it"):
            Run(World(), epoch=7)
        assert len(submissions(world)) == 1

    def test_a_driver_that_has_come_since_it_was_looked_at(self, world):
        def restarted(stream):
            world.on_wait = lambda stream: None
            another.__exit__(None, None, None)
            world.end("clicks")
            world.run(STREAM, queries=(kept_by(),), batch_seconds=1.0)

        another = world.cluster.lease("clicks", "restart run 2")
        another.__enter__()
        world.on_wait = restarted
        with pytest.raises(StaleEpoch, match="asked for driver 1, and driver 2 is running now"):
            Run(world)
        assert len(submissions(world)) == 2

    def test_a_stream_that_was_stopped_meanwhile(self, world):
        def stopped(stream):
            world.on_wait = lambda stream: None
            another.__exit__(None, None, None)
            world.end("clicks", DriverState.STOPPED)

        another = world.cluster.lease("clicks", "stop run 2")
        another.__enter__()
        world.on_wait = stopped
        with pytest.raises(StaleEpoch, match="and driver 1 is stopped now; nothing was done"):
            Run(world)

    def test_beside_another_operation(self, world):
        with world.cluster.lease("clicks", "stop run 2"), pytest.raises(OperationInProgress):
            Run(world, lease_wait=0)

    def test_what_would_keep_a_driver_from_being_launched_stops_nothing(self, world):
        def gone(stream):
            raise ClusterError("there is no file jobs/clicks.py")

        world.on_check = gone
        with pytest.raises(ClusterError, match="there is no file"):
            Run(world)
        assert world.streams["clicks"].driver.state is DriverState.RUNNING

    @pytest.mark.parametrize("outcome", ["refused", "undone"])
    def test_what_the_driver_does_not_do_fails_the_run_once_the_stream_runs_on(
        self, world, outcome
    ):
        """The query tells of its state with its first batch only; that is not waited for."""
        why = change(outcome=outcome, reason="its last batch is not done")
        active = Query(QUERY, active=True, cold=True)
        plays(world, [tells(why), tells(why), tells(why, queries=(active,))])
        with pytest.raises(NotDone) as failed:
            Run(world)
        assert str(failed.value) == (
            f"query 'counts': {outcome}: its last batch is not done. Driver 2 runs query 'counts' "
            "with 4 partitions"
        )

    def test_what_can_not_be_put_back_fails_the_run_at_once(self, world):
        plays(world, [tells(change(outcome="failed", reason="it can't be put back now"))])
        with pytest.raises(NotDone) as failed:
            Run(world)
        assert str(failed.value) == (
            "query 'counts': failed: it can't be put back now. Driver 2 is running, and has none "
            "of these queries yet"
        )

    def test_what_the_driver_has_never_heard_of_fails_the_run(self, world):
        """As with one whose program starts its queries in a way of its own."""
        plays(world, [runs(4)])
        with pytest.raises(NotDone) as failed:
            Run(world)
        assert str(failed.value) == (
            "query 'counts': its driver has not done anything about its state. Driver 2 runs query "
            "'counts' with 4 partitions"
        )

    def test_a_query_that_fails_on_the_new_partitions_fails_the_run(self, world):
        died = Query(QUERY, active=False, error="out of memory")
        plays(world, [tells(change(), queries=(died,))])
        with pytest.raises(NotDone) as failed:
            Run(world)
        assert str(failed.value) == (
            "query 'counts' has ended: out of memory. Driver 2 is running, and has none of these "
            "queries yet"
        )
