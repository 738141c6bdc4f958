"""A run that waits in a queue: one that will act is not asked for again, one that is void is."""

import time
from dataclasses import replace

import dagster as dg
import pytest
from dagster._core.events import DagsterEvent, DagsterEventType
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)

from dagster_sparkscale.lifecycle.reconcile import ASKED_LATER
from dagster_sparkscale.operations import OPERATION_LIMIT, STALE_AFTER, in_flight
from tests.watch.deployment import HOUR, Deployment, overload

QUEUED, NOT_STARTED = dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED


def waiting(deployed: Deployment, request: dg.RunRequest, status: dg.DagsterRunStatus) -> None:
    """The run that the sensor asks for, as Dagster has it before it is launched."""
    assert request.job_name is not None
    location = RegisteredCodeLocationOrigin("definitions.py")
    repository = RemoteRepositoryOrigin(location, "__repository__")
    run = deployed.instance.create_run_for_job(
        deployed.defs.resolve_job_def(request.job_name),
        run_config=request.run_config,
        tags=request.tags,
        remote_job_origin=RemoteJobOrigin(repository, request.job_name),  # only so it is queued
    )
    if status is QUEUED:
        event = DagsterEvent(DagsterEventType.PIPELINE_ENQUEUED.value, request.job_name)
        deployed.instance.report_dagster_event(event, run.run_id)
    found = deployed.instance.get_run_by_id(run.run_id)
    assert found is not None and found.status is status


def counts(deployed: Deployment, after: float) -> bool:
    return "clicks" in in_flight(deployed.instance, "spark_cluster", time.time() + after)


def asked(deployed: Deployment, job: str) -> dg.RunRequest:
    overload(deployed)
    if job == "restart":
        deployed.world.end("clicks", ended_at=1.0)
    (request,) = deployed.tick().requests
    assert request.job_name == job
    return request


def test_a_restart_that_is_queued_is_not_asked_for_a_second_time(deployed: Deployment) -> None:
    waiting(deployed, asked(deployed, "restart"), QUEUED)
    assert counts(deployed, 24 * HOUR)
    tick = deployed.tick()
    assert tick.requests == []
    assert "restart run" in tick.data.skip_message


@pytest.mark.parametrize("after", [-1.0, ASKED_LATER + 60])
def test_a_restart_that_was_queued_does_not_undo_a_later_stop(
    deployed: Deployment, after: float
) -> None:
    overload(deployed)
    assert deployed.by_hand("stop", stream="clicks").success
    with deployed.world.cluster.lease("clicks", "test") as lease:
        lease.write(replace(lease.record, desired_since=time.time() + after))
    done = deployed.by_hand("restart", stream="clicks")
    (told,) = done.get_asset_observation_events()
    text = told.asset_observation_data.asset_observation.description or ""
    wanted = "restarted driver 2" if after < 0 else "nothing was done: 'clicks' was asked to stop 1"
    assert done.success and text.startswith(wanted)


@pytest.mark.parametrize(
    ("job", "status", "seconds"),
    [
        ("rescale", QUEUED, STALE_AFTER),
        ("rescale", NOT_STARTED, STALE_AFTER),
        # One that never came to the queue may never do so.
        ("restart", NOT_STARTED, OPERATION_LIMIT),
    ],
)
def test_one_that_will_do_nothing_is_asked_for_again(
    deployed: Deployment, job: str, status: dg.DagsterRunStatus, seconds: float
) -> None:
    waiting(deployed, asked(deployed, job), status)
    assert counts(deployed, seconds - 60)
    assert not counts(deployed, seconds + 60)
