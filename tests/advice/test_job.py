"""The job `backtest` and its schedule, in a deployment whose history is stored."""

import time
from datetime import UTC, datetime

import dagster as dg
import pytest
from dagster._daemon.run_coordinator.queued_run_coordinator_daemon import (
    QueuedRunCoordinatorDaemon,
)

from dagster_sparkscale import Backtest, DeclarationError, build_defs, history
from dagster_sparkscale.names import BACKTEST
from dagster_sparkscale.observe.minutes import Minute
from tests.advice.recorded import STREAM, recorded, stored_in
from tests.in_memory.cluster import MemoryCluster, World

KEY = dg.AssetKey("clicks")


def defs(**more) -> dg.Definitions:
    return build_defs([STREAM], MemoryCluster(world=World().key), **more)


def carried_out(instance: dg.DagsterInstance, raises: bool = True, **config):
    job = defs().resolve_job_def("backtest")
    run_config = {"ops": {"backtest": {"config": {"stream": "clicks", **config}}}}
    return job.execute_in_process(run_config, instance=instance, raise_on_error=raises)


def observed(instance: dg.DagsterInstance) -> dg.AssetObservation:
    (record,) = instance.fetch_observations(KEY, 1).records
    assert record.asset_observation is not None
    return record.asset_observation


def test_what_comes_of_it_is_told_on_the_asset_and_hides_no_minute():
    minutes = recorded(began_at=int(time.time()) // 86400 * 86400 - 86400)
    with dg.DagsterInstance.ephemeral() as instance:
        stored_in(instance, minutes)
        since = minutes[0].at
        before = history(instance, "clicks", since)
        assert carried_out(instance, most_late=5.0, policies=["fixed:executors=2"]).success
        told = observed(instance)
        assert told.description.startswith("clicks: the declared policy is in time (")
        table = told.metadata["backtest"].value
        assert table.splitlines()[0] == told.description
        assert "| executors=2 | " in table and "late, and 5 % may be" in table
        assert told.metadata[BACKTEST].value["recommended"] == "declared"
        assert history(instance, "clicks", since) == before


def test_without_a_history_it_says_so():
    with dg.DagsterInstance.ephemeral() as instance:
        stored_in(instance, [Minute(int(time.time()) - 60, "running", 1)])
        assert carried_out(instance).success
        told = observed(instance)
        assert told.description.startswith("no advice: clicks: ")
        assert BACKTEST not in told.metadata


def test_a_policy_that_there_is_not_fails_its_run():
    minutes = recorded(began_at=int(time.time()) // 86400 * 86400 - 86400)
    with dg.DagsterInstance.ephemeral() as instance:
        stored_in(instance, minutes)
        done = carried_out(instance, raises=False, policies=["ration"])
        assert not done.success
        (failed,) = [each for each in done.all_events if each.is_step_failure]
        assert "did you mean 'ratio'" in str(failed.step_failure_data.user_failure_data)


def test_a_schedule_asks_for_one_of_each_stream():
    every = Backtest(cron="0 6 * * 1", timezone="Europe/Berlin", days=3, policies=("capacity",))
    found = defs(backtest=every)
    (schedule,) = found.schedules
    assert schedule.name == "backtests" and schedule.execution_timezone == "Europe/Berlin"
    at = datetime(2026, 1, 5, 5, tzinfo=UTC)
    with dg.build_schedule_context(scheduled_execution_time=at) as context:
        (request,) = schedule.evaluate_tick(context).run_requests
    assert request.run_key == f"backtest:clicks:{int(at.timestamp())}"
    assert dg.validate_run_config(found.resolve_job_def("backtest"), request.run_config)
    # An operation in flight would keep the autoscaler from deciding.
    assert not any(name.startswith("dagster-sparkscale/") for name in request.tags)


def test_an_operation_does_not_wait_in_the_queue_behind_the_backtests_of_all_streams():
    with dg.DagsterInstance.local_temp() as instance:
        for name in ("backtest", "backtest", "restart"):
            job = defs().resolve_job_def(name)
            config = {"ops": {name: {"config": {"stream": "clicks"}}}}
            instance.create_run_for_job(job, run_config=config, tags=dict(job.tags))
        queue = QueuedRunCoordinatorDaemon(interval_seconds=1)
        queued = instance.get_runs(ascending=True)
        order = [each.job_name for each in queue._priority_sort(queued)]
    assert order == ["restart", "backtest", "backtest"]


def test_without_being_asked_for_there_is_none():
    assert not defs().schedules


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"cron": "weekly"}, "cron = 'weekly'"),
        ({"timezone": "Mars"}, "timezone = 'Mars'"),
        ({"days": 0}, "days = 0"),
        ({"policies": ("ration",)}, "did you mean 'ratio'"),
        ({"policies": ("ratio:max_executors=0",)}, "max_executors = 0"),
    ],
)
def test_what_can_not_be_is_said_when_it_is_declared(fields, fault):
    with pytest.raises(DeclarationError, match=fault):
        defs(backtest=Backtest(**fields))
