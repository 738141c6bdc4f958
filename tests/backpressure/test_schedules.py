"""When limits are looked over, and when changes are verified; and why nothing is asked for."""

import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from dagster_sparkscale.backpressure.retune_job import RETUNE as OPERATION
from dagster_sparkscale.backpressure.schedules import DEADLINE, retune_schedules
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.declare.backpressure import Retune
from dagster_sparkscale.names import EPOCH_TAG, STREAM_TAG
from dagster_sparkscale.operations import Operations, Streams
from tests.backpressure.retuning import (
    JOB,
    KNOB,
    SETTING,
    deployment,
    has_run,
    past,
    read_once,
    remember,
    told,
    tuned_before,
    tuning,
)
from tests.fakes import structured
from tests.watch.deployment import Deployment
from tests.watch.schedules import evaluated, skipped, skipped_while_hanging


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """A schedule has none that is in memory."""
    with dg.DagsterInstance.local_temp(str(tmp_path)) as it:
        yield it


@pytest.fixture
def deployed(instance: dg.DagsterInstance) -> Deployment:
    it = deployment(read_once(), instance)
    has_run(it)
    return it


def carried_out(deployed: Deployment, request: dg.RunRequest) -> dg.ExecuteInProcessResult:
    return deployed.defs.resolve_job_def(request.job_name).execute_in_process(
        run_config=request.run_config, tags=request.tags, instance=deployed.instance
    )


NIGHTLY, VERIFY = "retune_clicks", "verify_retunes"


def test_a_stream_that_is_retuned_has_one_and_its_cluster_another(deployed):
    schedules = deployed.defs.get_repository_def().schedule_defs
    assert {each.name: each.cron_schedule for each in schedules} == {
        NIGHTLY: "0 3 * * *",
        VERIFY: "*/10 * * * *",
    }
    for each in schedules:
        assert each.default_status is dg.DefaultScheduleStatus.RUNNING
        assert each.job_name == JOB


def test_a_hundred_streams_are_not_restarted_in_the_same_minute():
    """At a minute of three hours of the night that stays the same, whoever asks."""
    names = [f"stream_{number}" for number in range(100)]
    crons = {name: Retune().cron(name) for name in names}
    assert {name: Retune().cron(name) for name in names} == crons
    minutes, hours = zip(
        *(map(int, (cron or "").split()[:2]) for cron in crons.values()), strict=True
    )
    assert set(hours) == {3, 4, 5} and all(0 <= minute < 60 for minute in minutes)
    at_once = max(list(crons.values()).count(cron) for cron in set(crons.values()))
    assert at_once <= 4 and len(set(crons.values())) > 60
    stream = read_once(retune=Retune(timezone="Europe/Berlin"))
    schedules = Deployment([stream]).defs.get_repository_def().schedule_defs
    (nightly,) = (each for each in schedules if each.name == NIGHTLY)
    assert nightly.cron_schedule == Retune().cron("clicks") and nightly.execution_timezone
    assert Retune(schedule="5 4 * * *").cron("clicks") == "5 4 * * *"
    assert Retune(schedule=None).cron("clicks") is None


def test_without_one_there_is_none():
    assert not Deployment([structured()]).defs.get_repository_def().schedule_defs


def test_without_a_time_of_its_own_only_what_people_do_is_verified(instance):
    it = Deployment([read_once(retune=Retune(schedule=None))], instance=instance)
    (one,) = it.defs.get_repository_def().schedule_defs
    assert one.name == VERIFY


def test_another_cluster_has_schedules_of_its_own(deployed):
    retune = Retune(schedule="5 4 * * SUN", timezone="Europe/Berlin")
    stream = read_once(retune=retune, name="orders")
    west = Deployment([stream], cluster_key="west")
    schedules = {each.name: each for each in west.defs.get_repository_def().schedule_defs}
    assert sorted(schedules) == ["retune_orders_west", "verify_retunes_west"]
    assert schedules["retune_orders_west"].cron_schedule == "5 4 * * SUN"
    assert schedules["retune_orders_west"].execution_timezone == "Europe/Berlin"
    assert schedules["retune_orders_west"].job_name == "retune_backpressure_west"
    dg.Definitions.validate_loadable(dg.Definitions.merge(deployed.defs, west.defs))


class TestNightly:
    def test_a_run_is_asked_for_that_does_it(self, deployed):
        (request,) = evaluated(deployed, NIGHTLY).run_requests
        assert (request.tags[STREAM_TAG], request.tags[EPOCH_TAG]) == ("clicks", "1")
        config = request.run_config["ops"][JOB]["config"]
        assert config["reason"].startswith(f"as scheduled: {KNOB}: 62,000 -> 9,000: an executor")
        assert (config["epoch"], config["dry_run"]) == (1, False)
        told(carried_out(deployed, request))
        assert deployed.world.streams["clicks"].settings == {SETTING: "9000"}
        assert skipped(deployed, NIGHTLY).startswith(
            "refused: 'clicks': what retune_backpressure run "
        )

    def test_one_that_only_reports_where_that_is_declared(self, instance, deployed):
        it = deployment(read_once(retune=Retune()), instance)
        (request,) = evaluated(it, NIGHTLY).run_requests
        _, story = told(carried_out(it, request))
        assert story["ending"] == "dry run"
        assert it.world.streams["clicks"].driver.epoch == 1

    def test_without_enough_history_it_is_skipped(self, instance):
        it = deployment(read_once(), instance)
        assert skipped(it, NIGHTLY).startswith("nothing to do: not enough history: 0.0 h with work")
        has_run(it, past(100))
        assert "not enough history: 1.6 h with work" in skipped(it, NIGHTLY)

    def test_without_a_gain_it_is_skipped(self, instance, deployed):
        it = deployment(read_once(most=9500), instance)
        assert skipped(it, NIGHTLY).startswith("nothing to do: nothing to gain: no limit differs")

    def test_after_a_person_it_is_skipped(self, deployed):
        remember(deployed, tuning=tuned_before(read_once(), by_hand=True))
        assert skipped(deployed, NIGHTLY).startswith("refused: 'clicks': hands off for 168.0 h")

    def test_of_a_stream_that_does_not_run_it_is_skipped(self, deployed):
        deployed.world.end("clicks")
        assert skipped(deployed, NIGHTLY) == (
            "refused: 'clicks' is failed: only one that runs is retuned"
        )

    def test_beside_an_operation_in_flight_it_is_skipped(self, deployed):
        run = in_flight(deployed)
        said = skipped(deployed, NIGHTLY), skipped(deployed, VERIFY)
        deployed.instance.delete_run(run.run_id)
        busy = f"rescale run {run.run_id[:8]} is in progress"
        assert said == (f"{busy}: the next night sees to it", "nothing is due")

    @pytest.mark.parametrize("error", [ClusterError("no master"), ZeroDivisionError("no master")])
    def test_what_can_not_be_told_is_skipped_with_why(self, deployed, error):
        def outage(stream):
            raise error

        deployed.world.on_find = outage
        assert skipped(deployed, NIGHTLY) == "it can't be told what is to be done: no master"

    def test_a_look_that_hangs_is_not_waited_for(self, deployed):
        known = Streams([read_once()], "spark_cluster")
        schedule, _ = retune_schedules(known, Operations(known, [OPERATION]), deadline=0.01)
        said = skipped_while_hanging(deployed, schedule)
        assert said == "it can't be told what is to be done: no answer within 0.01 s"


class TestVerification:
    def test_what_is_due_is_asked_for(self, deployed):
        assert skipped(deployed, VERIFY) == "nothing is due"
        remember(deployed, tuning=tuned_before(read_once(), verify_at=time.time() + 900))
        assert skipped(deployed, VERIFY) == "nothing is due"
        remember(deployed, tuning=tuned_before(read_once(), verify_at=time.time() - 1))
        (request,) = evaluated(deployed, VERIFY).run_requests
        config = request.run_config["ops"][JOB]["config"]
        assert (config["verify"], config["stream"]) == (True, "clicks")
        assert config["reason"] == "whether what run 1 has changed did any good"
        assert told(carried_out(deployed, request))[1]["verdict"] == "unknown"
        later = tuning(deployed).verify_at
        assert later is not None and later > time.time()
        assert skipped(deployed, VERIFY) == "nothing is due"

    def test_beside_an_operation_it_waits(self, deployed):
        remember(deployed, tuning=tuned_before(read_once(), verify_at=1.0))
        run = in_flight(deployed)
        said = skipped(deployed, VERIFY)
        deployed.instance.delete_run(run.run_id)
        assert said == f"clicks: rescale run {run.run_id[:8]} is in progress"

    def test_what_can_not_be_read_is_told(self, deployed, monkeypatch):
        def broken(*_):
            raise ClusterError("no disk")

        monkeypatch.setattr(type(deployed.world.cluster.store()), "read", broken)
        assert skipped(deployed, VERIFY) == "it can't be told what is due: no disk"


def test_the_deadline_leaves_time_within_the_one_of_dagster():
    assert DEADLINE < 60


def in_flight(deployed: Deployment) -> dg.DagsterRun:
    tags = {"dagster-sparkscale/stream": "clicks", "dagster-sparkscale/operation": "rescale"}
    tags["dagster-sparkscale/cluster"] = "spark_cluster"
    return deployed.instance.create_run_for_job(
        deployed.defs.resolve_job_def("rescale"),
        run_config={"ops": {"rescale": {"config": {"stream": "clicks"}}}},
        tags=tags,
        status=dg.DagsterRunStatus.STARTED,
    )


@pytest.mark.parametrize("schedule", [NIGHTLY, VERIFY])
def test_a_frozen_stream_is_left_alone(deployed: Deployment, schedule: str) -> None:
    remember(deployed, tuning=tuned_before(read_once(), verify_at=1.0))
    assert deployed.by_hand("steer", stream="clicks", action="freeze", reason="a demo").success
    assert skipped(deployed, schedule).endswith("until it is resumed (a demo)")
