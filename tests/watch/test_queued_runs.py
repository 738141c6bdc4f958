"""A run that waits in a queue is not asked for a second time, however long it waits there."""

import time

import dagster as dg
import pytest
from dagster._core.events import DagsterEvent, DagsterEventType
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)

from dagster_sparkscale.in_flight import BEGINS, in_flight
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
    cluster = deployed.world.cluster
    return "clicks" in in_flight(deployed.instance, "spark_cluster", cluster, time.time() + after)


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


def test_a_queue_that_is_blocked_does_not_fill_with_rescales(deployed: Deployment) -> None:
    waiting(deployed, asked(deployed, "rescale"), QUEUED)
    assert counts(deployed, 24 * HOUR)
    deployed.cursor = None  # as when its interval has passed: it is due
    tick = deployed.tick()
    assert tick.requests == [] and "rescale run" in tick.data.skip_message


@pytest.mark.parametrize("status", [QUEUED, NOT_STARTED])
def test_a_rescale_that_waits_does_not_keep_a_driver_that_fails_from_being_restarted(
    deployed: Deployment, status: dg.DagsterRunStatus
) -> None:
    waiting(deployed, asked(deployed, "rescale"), status)
    deployed.world.end("clicks", ended_at=1.0)
    (request,) = deployed.tick().requests
    assert request.job_name == "restart"
    waiting(deployed, request, status)
    assert deployed.tick().requests == []


def test_nor_does_it_hide_one_that_does(deployed: Deployment) -> None:
    rescale = asked(deployed, "rescale")
    deployed.world.end("clicks")
    restart = asked(deployed, "restart")
    for request in (rescale, restart, rescale):
        waiting(deployed, request, QUEUED)
    found = in_flight(deployed.instance, "spark_cluster", deployed.world.cluster, time.time())
    assert found["clicks"].run.startswith("restart run") and found["clicks"].bars_recovery


@pytest.mark.parametrize("job", ["rescale", "restart"])
def test_one_that_never_came_to_the_queue_is_asked_for_again(
    deployed: Deployment, job: str
) -> None:
    waiting(deployed, asked(deployed, job), NOT_STARTED)
    assert counts(deployed, BEGINS - 60)
    assert not counts(deployed, BEGINS + 60)
