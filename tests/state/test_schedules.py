"""Maintenance windows: what a schedule asks for, and why it asks for nothing."""

import time
from collections.abc import Iterator

import dagster as dg
import pytest

from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.records.leases import steer
from dagster_sparkscale.clusters.records.steering import Steered
from dagster_sparkscale.names import EPOCH_TAG, STREAM_TAG
from dagster_sparkscale.operations import Operations, Streams
from dagster_sparkscale.state import schedules as schedules_module
from dagster_sparkscale.state.reconfigure_job import RECONFIGURE
from dagster_sparkscale.state.schedules import maintenance_schedules
from tests.fakes import QUERY, scaled
from tests.state.saying import change, kept_by, plays, runs, stateful
from tests.watch import schedules
from tests.watch.deployment import Deployment, failure_of

WINDOW = "0 3 * * SUN"
MAINTENANCE = "maintain_clicks"
STREAM = stateful(maintenance=WINDOW, timezone="Europe/Berlin")


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dg.DagsterInstance]:
    """A schedule has none that is in memory."""
    with dg.DagsterInstance.local_temp(str(tmp_path_factory.mktemp("dagster"))) as it:
        yield it


@pytest.fixture
def deployed(instance: dg.DagsterInstance) -> Deployment:
    it = Deployment([STREAM, scaled("plain"), stateful("by_hand")], instance=instance)
    it.world.run(STREAM, queries=(kept_by(),), batch_seconds=1.0)
    return it


def skipped(deployed: Deployment) -> str:
    """Why the window of the stream brings no run."""
    return schedules.skipped(deployed, MAINTENANCE)


def test_only_a_stream_with_a_window_has_a_schedule(deployed):
    (one,) = deployed.defs.get_repository_def().schedule_defs
    assert (one.name, one.cron_schedule, one.execution_timezone) == (
        *(MAINTENANCE, WINDOW),
        "Europe/Berlin",
    )
    assert one.default_status is dg.DefaultScheduleStatus.RUNNING
    assert one.job_name == "reconfigure_state"


def test_another_cluster_has_schedules_of_its_own(deployed):
    stream = stateful("orders", maintenance=WINDOW)
    west = Deployment([stream], cluster_key="west")
    (one,) = west.defs.get_repository_def().schedule_defs
    assert (one.name, one.job_name) == ("maintain_orders_west", "reconfigure_state_west")
    dg.Definitions.validate_loadable(dg.Definitions.merge(deployed.defs, west.defs))


def test_in_its_window_a_run_is_asked_for_that_does_it(deployed):
    (request,) = schedules.evaluated(deployed, MAINTENANCE).run_requests
    assert request.tags[STREAM_TAG] == "clicks" and request.tags[EPOCH_TAG] == "1"
    config = request.run_config["ops"]["reconfigure_state"]["config"]
    assert (config["stream"], config["epoch"]) == ("clicks", 1)
    assert config["reason"].startswith("maintenance window: query 'counts': 4 -> 8 partitions")
    plays(deployed.world, [runs(8, change())])
    job = deployed.defs.resolve_job_def("reconfigure_state")
    result = job.execute_in_process(
        run_config=request.run_config, tags=request.tags, instance=deployed.instance
    )
    assert result.success
    assert deployed.world.streams["clicks"].driver.epoch == 2
    assert skipped(deployed).startswith("nothing to do: query 'counts' has 8 partitions already")


def test_a_run_that_comes_long_after_the_window_does_nothing(deployed):
    (request,) = schedules.evaluated(deployed, MAINTENANCE).run_requests
    config = dict(request.run_config["ops"]["reconfigure_state"]["config"])
    config["decided_at"] -= 3600
    assert failure_of(deployed.by_hand("reconfigure_state", **config)).startswith("stale: this was")
    assert deployed.world.streams["clicks"].driver.epoch == 1


def test_what_is_refused_is_skipped_with_why(deployed):
    deployed.world.streams["clicks"].queries = (kept_by(key_groups=32),)
    assert skipped(deployed).startswith("refused: state.key_groups = 16: the checkpoint of query")
    deployed.world.end("clicks")
    assert skipped(deployed).startswith("refused: 'clicks' is failed: materialize its asset")


def test_beside_an_operation_in_flight_it_is_skipped(deployed):
    tags = {"dagster-sparkscale/stream": "clicks", "dagster-sparkscale/operation": "rescale"}
    tags["dagster-sparkscale/cluster"] = "spark_cluster"
    job = deployed.defs.resolve_job_def("rescale")
    run = deployed.instance.create_run_for_job(
        job,
        run_config={"ops": {"rescale": {"config": {"stream": "clicks"}}}},
        tags=tags,
        status=dg.DagsterRunStatus.STARTED,
    )
    said = skipped(deployed)
    deployed.instance.delete_run(run.run_id)
    assert said == (f"rescale run {run.run_id[:8]} is in progress: the next window sees to it")


@pytest.mark.parametrize("error", [ClusterError("no master"), ZeroDivisionError("no master")])
def test_what_can_not_be_told_is_skipped_with_why(deployed, error):
    def outage(stream):
        raise error

    deployed.world.on_find = outage
    assert skipped(deployed) == "it can't be told what is to be done: no master"


def test_a_look_that_hangs_is_not_waited_for(deployed):
    known = Streams([STREAM], "spark_cluster")
    (schedule,) = maintenance_schedules(known, Operations(known, [RECONFIGURE]), deadline=0.01)
    said = schedules.skipped_while_hanging(deployed, schedule)
    assert said == "it can't be told what is to be done: no answer within 0.01 s"


def test_the_deadline_leaves_time_within_the_one_of_dagster():
    assert schedules_module.DEADLINE < 60


@pytest.mark.parametrize("action", ["freeze", "advise"])
def test_a_stream_that_is_to_stay_as_it_is_is_left_alone(deployed, action):
    assert deployed.by_hand("steer", stream="clicks", action=action, reason="a demo").success
    assert skipped(deployed).endswith("until it is resumed (a demo)")


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("kind", ["freeze", "advise"])
def test_so_is_one_that_is_steered_while_the_windows_run_waits_for_it(deployed, kind, in_place):
    world, instance = deployed.world, deployed.instance
    (request,) = schedules.evaluated(deployed, MAINTENANCE).run_requests
    if in_place:
        world.streams["clicks"].in_place = {QUERY: None}
    another = world.cluster.lease("clicks", "a rescale")
    another.__enter__()

    def steered_and_given_back(stream: str) -> None:
        world.on_wait = lambda stream: None
        steered = Steered("ann", "a demo", time.time(), None)
        steer(world.cluster.store(), stream, lambda entries: {**entries, kind: steered})
        another.__exit__(None, None, None)

    world.on_wait = steered_and_given_back
    before = [*world.calls]
    job = deployed.defs.resolve_job_def(request.job_name)
    result = job.execute_in_process(
        run_config=request.run_config, tags=request.tags, instance=instance
    )
    assert result.success
    assert world.calls == before
    said = [each.user_message for each in instance.all_logs(result.run_id)]
    assert any("ann" in line and "a demo" in line for line in said)
