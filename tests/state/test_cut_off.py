"""A change of state partitions that is cut off, or takes too long."""

from dataclasses import replace

import pytest

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.requests import NotDone
from dagster_sparkscale.remedy import Remedy, WithRemedy
from dagster_sparkscale.state.follow import OutOfTime
from tests.state.following import STREAM, Run, submissions
from tests.state.saying import change, dies, kept_by, plays, runs, tells

NEVER = 0.0
"""Seconds: out of time after one look."""


class TestKilledInTheMiddle:
    UNDONE = change(outcome="undone", reason="its driver was ended in the middle of it")

    def test_the_next_start_has_no_plan_and_says_what_was_put_back(self, world):
        plays(
            world,
            [tells(change(step="rewriting")), dies(world)],
            [tells(change(step="undoing")), tells(self.UNDONE), runs(4, self.UNDONE)],
        )
        with pytest.raises(NotDone) as failed:
            Run(world)
        assert str(failed.value).startswith(
            "driver 2 ended in the middle of it (killed by signal 9). query 'counts': undone: its "
            "driver was ended in the middle of it. Driver 3 "
        )
        kept = world.streams["clicks"]
        assert (kept.driver.epoch, kept.settings) == (3, {})
        assert kept.driver.state is DriverState.RUNNING
        assert world.records["clicks"].desired == "running"

    def test_what_was_verified_is_closed_and_that_is_a_success(self, world):
        closed = change(reason="an earlier driver had finished it")
        plays(world, [tells(change(step="closing")), dies(world)], [runs(8, closed)])
        came = Run(world).came
        assert (came.driver.epoch, came.results[0].outcome) == (3, "changed")
        assert came.notes == (
            "driver 2 ended in the middle of it (killed by signal 9); driver 3 went on from there",
        )

    def test_after_the_change_before_the_first_batch_it_stays_changed(self, world):
        plays(world, [tells(change()), dies(world)], [runs(8)])
        came = Run(world).came
        assert (came.driver.epoch, came.results[0].outcome) == (3, "changed")

    @pytest.mark.parametrize("seen", [(), (change(step="rewriting"),)])
    def test_done_before_it_was_asked_it_has_left_word_in_the_checkpoint(self, world, seen):
        now = (kept_by(partitions=8, last=change("p1")),)
        plays(
            world,
            [tells(*seen), dies(world)],
            [tells(queries=now, batch_seconds=1.0)],
        )
        came = Run(world).came
        assert (came.driver.epoch, came.results[0].outcome) == (3, "changed")

    def test_what_an_earlier_run_has_left_there_is_not_taken_for_it(self, world):
        now = (kept_by(partitions=4, last=change("p0")),)
        plays(world, [dies(world)], [tells(queries=now, batch_seconds=1.0)])
        with pytest.raises(NotDone, match="has not done anything about its state"):
            Run(world)

    def test_before_anything_was_begun_nothing_is_left_of_it(self, world):
        plays(world, [tells(change(step="measuring")), dies(world)], [runs(4)])
        with pytest.raises(NotDone) as failed:
            Run(world)
        assert "query 'counts': cut off at 'measuring', and nothing of it is left." in str(
            failed.value
        )
        assert str(failed.value).endswith("Driver 3 runs query 'counts' with 4 partitions")

    def test_before_it_said_anything(self, world):
        plays(world, [dies(world)], [runs(4)])
        with pytest.raises(NotDone, match="has not done anything about its state"):
            Run(world)

    def test_one_that_ends_while_it_is_submitted_is_one_too(self, world):
        def submitted(kept):
            if kept.driver.epoch == 2:
                world.end("clicks", exit_reason="exit code 1")
                raise ClusterError("it ended at once")
            runs(4)(kept, "p1")

        world.on_submit = submitted
        with pytest.raises(NotDone, match=r"driver 2 ended in the middle of it \(exit code 1\)"):
            Run(world)
        assert world.streams["clicks"].driver.epoch == 3

    def test_one_that_was_never_launched_is_told_as_it_is(self, world):
        def gone():
            raise ClusterError("no master")

        world.on_prepare = gone
        with pytest.raises(ClusterError, match="no master"):
            Run(world)
        # Recovery completes it, as any restart that was cut off.
        assert world.records["clicks"].desired == "restarting"

    def test_the_second_one_ends_too(self, world):
        plays(
            world,
            [tells(change(step="rewriting")), dies(world)],
            [dies(world, exit_reason="exit code 1")],
        )
        with pytest.raises(NotDone) as failed:
            Run(world)
        text = str(failed.value)
        assert "driver 3, which was to undo or close that, has ended as well (exit code 1)" in text
        assert text.endswith("query 'counts': rewriting")
        assert len(submissions(world)) == 3

    def test_no_second_one_can_be_launched(self, world):
        def gone():
            raise ClusterError(WithRemedy("no master, so ", Remedy.STOP))

        def last_act(kept, id):
            world.on_prepare = gone
            dies(world)(kept, id)

        plays(world, [last_act])
        with pytest.raises(NotDone, match="It failed of: no master") as failed:
            Run(world)
        assert WithRemedy(str(failed.value)).advises

    def test_one_that_somebody_has_stopped_stays_stopped(self, world):
        plays(world, [tells(change(step="rewriting")), dies(world, DriverState.STOPPED)])
        with pytest.raises(NotDone, match="driver 2 was stopped in the middle of it"):
            Run(world)
        assert len(submissions(world)) == 2

    def test_one_whose_checkpoint_is_another_s_is_not_started_again(self, world):
        reason = "the checkpoint has been taken by driver 9 of 'other'"
        plays(world, [dies(world, exit_reason=reason, fenced=True)], [runs(4)])
        with pytest.raises(NotDone, match=r"may not have its checkpoint: .* driver 9 of 'other'"):
            Run(world)
        assert len(submissions(world)) == 2

    def test_one_that_somebody_stops_before_the_next_start_stays_stopped(self, world):
        def stopped(stream):
            driver = world.streams["clicks"].driver
            if driver.state is DriverState.FAILED:
                finds.append(1)
                if len(finds) > 1:
                    world.end("clicks", DriverState.STOPPED)

        finds = []
        plays(world, [dies(world)])
        world.on_find = stopped  # after the driver has failed, before the lease is had
        with pytest.raises(NotDone, match="and was stopped since: the next start undoes it"):
            Run(world)
        assert len(submissions(world)) == 2

    def test_one_that_recovery_has_started_meanwhile_is_followed(self, world):
        def recovered(kept, id):
            dies(world)(kept, id)
            world.run(STREAM, queries=(kept_by(),), batch_seconds=1.0)
            world.streams["clicks"].reconfigurations = (replace(self.UNDONE, id=id),)

        plays(world, [tells(change(step="rewriting")), recovered], [])
        with pytest.raises(NotDone) as failed:
            Run(world)
        assert str(failed.value).startswith(
            "driver 2 ended in the middle of it, and driver 3 came. query 'counts': undone:"
        )
        assert len(submissions(world)) == 3


class TestOutOfTime:
    def text(self, world, *acts):
        plays(world, list(acts))
        with pytest.raises(OutOfTime) as failed:
            Run(world, within=NEVER)
        return str(failed.value)

    def test_what_the_driver_is_at_is_said_and_that_it_goes_on(self, world):
        text = self.text(world, tells(change(step="rewriting")))
        assert text.startswith(
            "out of time: driver 2 is running, and it is at the state of query 'counts': "
            "rewriting. It goes on all the same"
        )
        assert world.streams["clicks"].driver.state is DriverState.RUNNING

    def test_before_the_first_batch(self, world):
        told = tells(change(), queries=(kept_by(),))
        assert "and not every query has completed a batch yet" in self.text(world, told)

    def test_of_a_silent_agent(self, world):
        text = self.text(world, tells(reachable=False))
        assert "driver 2 is running, and its agent does not answer." in text

    def test_an_outage_of_the_cluster_manager_is_waited_out(self, world):
        def outage(stream):
            if not world.streams["clicks"].reachable:
                outages.append(1)
                raise ClusterError("no master")

        outages = []
        plays(world, [tells(reachable=False), tells(reachable=True), runs(8, change())])
        world.on_find = outage
        assert Run(world).came.results[0].outcome == "changed"
        assert len(outages) == 1
