"""A stop that was cut off after it had said what is wanted: the driver runs on, which is told."""

import time
from dataclasses import replace

from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.lifecycle.reconcile import reconcile
from dagster_sparkscale.names import CLUSTER_TAG, OPERATION_TAG, STREAM_TAG
from dagster_sparkscale.watch.health import STOP_SECONDS
from tests.watch.deployment import STREAM, Deployment, Tick, overload


def cut_off(deployed: Deployment) -> None:
    """A stop whose run died before the agent was asked, a while ago."""
    with deployed.world.cluster.lease("clicks", "stop run 1") as lease:
        at = time.time() - STOP_SECONDS - 1
        lease.write(replace(lease.record, desired="stopped", desired_since=at))


def state(tick: Tick) -> str:
    (event,) = tick.told()
    text: str = event.metadata["state"].value
    return text


def test_it_is_told_until_it_is_materialized(deployed: Deployment) -> None:
    overload(deployed, batch_seconds=5)
    assert deployed.tick().checks()["running"] is True
    cut_off(deployed)
    tick = deployed.tick()
    assert tick.checks() == {"running": False}
    assert state(tick).startswith("**not stopped, 2 executors (1 to 10 allowed)")
    assert "was asked to stop at" in state(tick)
    reconcile(deployed.world.cluster, STREAM, Requester("materialized by hand"))
    assert deployed.tick().checks()["running"] is True


def test_it_is_told_until_it_is_stopped(deployed: Deployment) -> None:
    overload(deployed, batch_seconds=5)
    cut_off(deployed)
    assert deployed.tick().checks()["running"] is False
    assert deployed.by_hand("stop", stream="clicks").success
    assert state(deployed.tick()).startswith("**stopped since")


def test_a_stop_that_is_in_progress_is_none_that_was_cut_off(deployed: Deployment) -> None:
    overload(deployed, batch_seconds=5)
    cut_off(deployed)
    run = deployed.instance.create_run_for_job(
        deployed.defs.resolve_job_def("stop"),
        run_config={"ops": {"stop": {"config": {"stream": "clicks"}}}},
        tags={CLUSTER_TAG: "spark_cluster", STREAM_TAG: "clicks", OPERATION_TAG: "stop"},
    )
    assert deployed.tick().checks()["running"] is True
    deployed.instance.delete_run(run.run_id)
    assert deployed.tick().checks() == {"running": False}
