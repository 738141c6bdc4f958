"""What only a person can decide: that a driver is gone, and that a hold is over."""

import time
from dataclasses import replace

import dagster as dg
import pytest

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.names import STORY
from dagster_sparkscale.operations import STALE_AFTER
from tests.fakes import scaled
from tests.watch.deployment import Deployment, failure_of, overload


@pytest.fixture
def deployed() -> Deployment:
    deployed = Deployment([scaled()])
    overload(deployed)
    return deployed


def story_of(result: dg.ExecuteInProcessResult) -> dict:
    """What the run's page shows of what it came to."""
    (event,) = result.get_asset_observation_events()
    return dict(event.asset_observation_data.asset_observation.metadata[STORY].value)


def unknown(deployed: Deployment) -> None:
    kept = deployed.world.streams["clicks"]
    kept.driver = replace(kept.driver, state=DriverState.UNKNOWN)


class TestDeclareGone:
    def test_a_driver_of_which_nothing_can_be_told_counts_as_failed_from_then_on(self, deployed):
        unknown(deployed)
        result = deployed.by_hand("declare_gone", stream="clicks", epoch=1, reason="disk burnt")
        assert result.success
        driver = deployed.world.cluster.find("clicks")
        assert driver.state is DriverState.FAILED
        assert driver.exit_reason == f"declared gone by declare_gone run {result.run_id[:8]}"
        assert story_of(result) == {
            "reason": "disk burnt",
            "epoch": 1,
            "state": "failed",
        }
        # And so its recovery goes on by itself.
        kept = deployed.world.streams["clicks"]
        kept.driver = replace(kept.driver, ended_at=time.time() - 60)
        (request,) = deployed.tick().requests
        assert request.job_name == "restart"

    def test_one_that_runs_is_not(self, deployed):
        text = failure_of(deployed.by_hand("declare_gone", stream="clicks", epoch=1))
        assert text.startswith("driver 1 of 'clicks' is running (memory process 1)")
        assert deployed.world.cluster.find("clicks").state is DriverState.RUNNING

    @pytest.mark.parametrize("epoch", [0, 2])
    def test_only_the_one_that_is_named(self, deployed, epoch):
        unknown(deployed)
        text = failure_of(deployed.by_hand("declare_gone", stream="clicks", epoch=epoch))
        assert text == f"epoch = {epoch}: the newest driver of 'clicks' is driver 1"
        assert deployed.world.cluster.find("clicks").state is DriverState.UNKNOWN


class TestLiftHold:
    def held(self, deployed) -> None:
        with deployed.world.cluster.lease("clicks", "reconfigure run 1a2b") as lease:
            deployed.world.cluster.hold(lease, "rewriting state", "run it again")

    def test_a_held_stream_is_not_restarted_and_says_why(self, deployed):
        self.held(deployed)
        deployed.world.end("clicks", ended_at=1.0)
        tick = deployed.tick()
        assert tick.requests == []
        assert (
            "held by reconfigure run 1a2b, in the middle of: rewriting state; run it again"
            in tick.data.skip_message
        )
        text = failure_of(deployed.by_hand("restart", stream="clicks"))
        assert "It can't be started before that is finished or undone" in text

    def test_a_restart_of_a_held_stream_does_not_even_stop_it(self, deployed):
        self.held(deployed)
        assert "in the middle of: rewriting" in failure_of(
            deployed.by_hand("restart", stream="clicks")
        )
        assert deployed.world.cluster.find("clicks").state is DriverState.RUNNING

    def test_lifted_it_may_be_started_again(self, deployed):
        self.held(deployed)
        deployed.world.end("clicks", ended_at=1.0)
        assert deployed.by_hand("lift_hold", stream="clicks").success
        assert deployed.by_hand("restart", stream="clicks").success
        assert deployed.world.cluster.find("clicks").epoch == 2

    def test_what_was_lifted_is_told_with_what_it_said_of_undoing_it(self, deployed):
        self.held(deployed)
        result = deployed.by_hand("lift_hold", stream="clicks", reason="it is undone")
        assert story_of(result) == {
            "reason": "it is undone",
            "hold": "rewriting state",
            "undo": "run it again",
        }

    def test_what_is_not_held_can_not_be_lifted(self, deployed):
        text = failure_of(deployed.by_hand("lift_hold", stream="clicks"))
        assert text == "'clicks' is not held by anybody: there is nothing to lift"


@pytest.mark.parametrize(
    ("job", "config"), [("declare_gone", {"epoch": 1}), ("lift_hold", {}), ("stop_orphan", {})]
)
def test_what_is_remembered_by_no_name_is_told_with_what_there_is(deployed, job, config):
    text = failure_of(deployed.by_hand(job, stream="orders", **config))
    assert text == "stream = 'orders': nothing is remembered of it; remembered are: 'clicks'"
    deployed.world.records.clear()
    text = failure_of(deployed.by_hand(job, stream="orders", **config))
    assert text.endswith("remembered are: none")


def test_a_driver_that_no_cluster_manager_knows_is_not_declared_gone(deployed):
    deployed.world.streams.clear()
    text = failure_of(deployed.by_hand("declare_gone", stream="clicks", epoch=1))
    assert text == "epoch = 1: the newest driver of 'clicks' is none"


@pytest.mark.parametrize("job", ["declare_gone", "lift_hold", "stop_orphan"])
def test_each_is_refused_by_name_while_another_operation_holds_the_stream(
    deployed, monkeypatch, job
):
    monkeypatch.setattr("dagster_sparkscale.operations.LEASE_WAIT", 0)
    config = {"declare_gone": {"epoch": 1}, "stop_orphan": {"whoever_declares_it": True}}
    deployed.world.run(scaled("old"))
    stream = "old" if job == "stop_orphan" else "clicks"
    with deployed.world.cluster.lease(stream, "rescale run 12345678"):
        text = failure_of(deployed.by_hand(job, stream=stream, **config.get(job, {})))
    assert f"rescale run 12345678 has held {stream!r} since" in text


class TestStale:
    def test_a_decision_that_starts_too_late_changes_nothing(self, deployed, monkeypatch):
        (request,) = deployed.tick().requests
        before = deployed.world.streams["clicks"].requested
        late = time.time() + STALE_AFTER + 1
        monkeypatch.setattr("dagster_sparkscale.operations.time.time", lambda: late)
        with pytest.raises(Exception, match=r"stale: this was decided 18\d s ago.* clock is ah"):
            deployed.run(request)
        assert deployed.world.streams["clicks"].requested == before

    def test_one_that_starts_in_time_is_carried_out(self, deployed):
        (request,) = deployed.tick().requests
        assert deployed.run(request).success

    def test_a_restart_of_what_failed_is_never_too_late_as_it_looks_again(
        self, deployed, monkeypatch
    ):
        deployed.world.end("clicks", ended_at=1.0)
        (request,) = deployed.tick().requests
        late = time.time() + 10 * STALE_AFTER
        monkeypatch.setattr("dagster_sparkscale.operations.time.time", lambda: late)
        assert deployed.run(request).success
        assert deployed.world.cluster.find("clicks").epoch == 2

    def test_what_a_person_asks_for_is_never_too_late(self, deployed):
        assert deployed.by_hand("rescale", stream="clicks", target=3, wait_seconds=0).success
