"""A failed driver is followed by the next, unless it is void by then."""

import re
import time

import pytest

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import ClusterError, StaleEpoch
from dagster_sparkscale.clusters.records.starts import ATTEMPT, last_refusal
from dagster_sparkscale.declare.policies import RecoveryPolicy
from dagster_sparkscale.lifecycle.jobs import describe
from dagster_sparkscale.lifecycle.reconcile import Action
from dagster_sparkscale.watch.fleet.rows import row
from dagster_sparkscale.watch.sighting import Sighting
from tests.fakes import structured
from tests.lifecycle.reconciling import STREAM, start, submissions
from tests.watch.assessing import assess


class TestRecovery:
    def test_what_never_comes_to_a_launch_is_remembered_and_counts(self, world):
        world.run(STREAM)
        world.end("clicks")

        def gone():
            raise ClusterError("no master")

        world.on_prepare = gone
        for _ in range(3):
            with pytest.raises(ClusterError, match="no master"):
                self.recovery(world)
        assert [s.cause for s in world.cluster.history("clicks")] == ["manual", *[ATTEMPT] * 3]
        world.on_prepare = lambda: None
        assert self.recovery(world).driver.epoch == 2

    def test_what_the_driver_before_has_failed_of_is_told_while_the_next_one_runs(self, world):
        world.run(STREAM)
        world.end("clicks")
        failed_of = world.cluster.find("clicks").exit_reason
        assert failed_of
        for epoch in (2, 3):
            driver = self.recovery(world, epoch - 1).driver
            assert driver.epoch == epoch
            sighting = Sighting("clicks", world.cluster.find("clicks"), error="no answer yet")
            seen = row(assess(STREAM, sighting, now=time.time()))
            told = f"the last as driver {epoch - 1} failed ({failed_of})"
            # Once is no loop.
            assert (told in seen.note) == (epoch == 3), seen.note
            if epoch == 2:
                world.end("clicks")

    @pytest.mark.parametrize("kind", [ClusterError, OSError, ZeroDivisionError])
    def test_what_it_was_refused_with_is_told_until_one_comes_to_a_launch(self, world, kind):
        world.run(STREAM)
        world.end("clicks")

        def taken():
            raise kind("somebody\nhas the checkpoint")

        world.on_prepare = taken
        with pytest.raises(kind, match="has the checkpoint"):
            self.recovery(world)
        assert last_refusal(world.cluster.history("clicks")) == "somebody has the checkpoint"
        world.on_prepare = lambda: None
        self.recovery(world)
        assert last_refusal(world.cluster.history("clicks")) is None

    def test_what_a_driver_ended_of_that_was_launched_is_no_refusal(self, world):
        world.run(STREAM)
        world.end("clicks")

        def ends(kept):
            raise ClusterError("it ended at once")

        world.on_submit = ends
        with pytest.raises(ClusterError, match="ended at once"):
            self.recovery(world)
        history = world.cluster.history("clicks")
        assert (history[-1].cause, history[-1].error) == ("recovery", "")
        assert last_refusal(history) is None

    def recovery(self, world, epoch=1, stream=STREAM):
        return start(world, stream, cause="recovery", failed_epoch=epoch)

    def test_a_failed_driver_is_followed_by_the_next(self, world):
        world.run(STREAM)
        world.end("clicks")
        outcome = self.recovery(world)
        assert (outcome.action, outcome.driver.epoch) == (Action.STARTED, 2)
        assert world.cluster.history("clicks")[-1].cause == "recovery"

    def test_it_is_void_if_another_driver_runs_by_now(self, world):
        world.run(STREAM)
        world.end("clicks")
        world.run(STREAM)
        outcome = self.recovery(world)
        assert (outcome.action, outcome.driver.epoch) == (Action.ATTACHED, 2)
        assert len(submissions(world)) == 2

    def test_it_is_void_if_another_driver_has_failed_by_now(self, world):
        world.run(STREAM)
        world.end("clicks")
        world.run(STREAM)
        world.end("clicks")
        outcome = self.recovery(world)
        assert len(submissions(world)) == 2
        assert describe(outcome) == "driver 2 is failed by now: nothing was done"

    def test_it_is_void_if_somebody_stopped_the_stream(self, world):
        world.run(STREAM)
        world.end("clicks", DriverState.STOPPED)
        outcome = self.recovery(world)
        assert len(submissions(world)) == 1
        assert describe(outcome) == "driver 1 is stopped by now: nothing was done"

    def test_it_is_void_if_the_driver_runs_after_all(self, world):
        world.run(STREAM)
        assert self.recovery(world).action is Action.ATTACHED
        assert len(submissions(world)) == 1

    def test_while_the_pause_is_not_over_it_does_nothing_and_counts_for_nothing(self, world):
        """Runs that waited in a queue come all at once when it moves again."""
        stream = structured()  # its pauses are ten seconds and more
        world.run(stream)
        world.end("clicks", ended_at=1.0)

        def gone():
            raise ClusterError("no master")

        world.on_prepare = gone
        with pytest.raises(ClusterError, match="no master"):
            self.recovery(world, stream=stream)
        for _ in range(20):
            outcome = self.recovery(world, stream=stream)
            assert outcome.action is Action.HELD
        assert re.search(
            r"^nothing was done: driver 1 failed \(exit code 1\); restart 2 of 5 at [0-9:]{8} UTC",
            describe(outcome),
        )
        assert [s.cause for s in world.cluster.history("clicks")] == ["manual", ATTEMPT]

    def test_given_up_it_stays_given_up_whatever_run_still_comes(self, world):
        stream = structured(recovery=RecoveryPolicy(first_delay=1e-9, longest_delay=1e-9, limit=1))
        world.run(stream)
        world.end("clicks")
        assert self.recovery(world, stream=stream).driver.epoch == 2
        world.end("clicks")
        outcome = self.recovery(world, epoch=2, stream=stream)
        assert outcome.action is Action.HELD
        assert "giving up; mend it and materialize the stream" in describe(outcome)
        assert len(submissions(world)) == 2

    def test_it_is_void_if_nothing_is_known_of_the_driver_any_more(self, world):
        with pytest.raises(StaleEpoch, match="knows no driver of it any more; nothing was done"):
            self.recovery(world)
        assert submissions(world) == []
