"""Runs of the jobs `restart` and `stop`: what they pass on, and what their pages show."""

import time
from dataclasses import replace

import dagster as dg
import pytest

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.names import STORY
from dagster_sparkscale.operations import Streams
from tests.lifecycle.reconciling import STREAM, submissions
from tests.watch.deployment import Deployment


@pytest.fixture
def deployed() -> Deployment:
    deployed = Deployment([STREAM])
    deployed.world.run(STREAM)
    return deployed


def shown(result: dg.ExecuteInProcessResult) -> tuple[str, dict]:
    """The line and the values of the run's page."""
    assert result.success
    (event,) = result.get_asset_observation_events()
    observation = event.asset_observation_data.asset_observation
    return observation.description, dict(observation.metadata[STORY].value)


@pytest.mark.parametrize("job", ["restart", "stop"])
def test_the_lease_has_the_name_of_the_run(deployed, job):
    holders = set()

    def find(stream):
        if (lease := deployed.world.records[stream].lease) is not None:
            holders.add(lease.holder)

    deployed.world.on_find = find
    result = deployed.by_hand(job, stream="clicks")
    assert holders == {f"{job} run {result.run_id[:8]}"}


def test_a_restart_shows_what_it_came_to_and_why_it_was_asked_for(deployed, monkeypatch):
    monkeypatch.setattr(Streams, "owner", lambda *_: "web/spark_cluster")
    line, story = shown(deployed.by_hand("restart", stream="clicks", reason="an upgrade"))
    assert line.startswith("restarted driver 2 (memory process 2); its first query ran after")
    assert (story["action"], story["epoch"], story["reason"]) == ("restarted", 2, "an upgrade")
    assert deployed.world.records["clicks"].owner == "web/spark_cluster"


def test_a_recovery_is_of_the_driver_that_failed_and_of_no_later_one(deployed):
    deployed.world.end("clicks")
    deployed.world.run(STREAM)
    deployed.world.end("clicks")
    line, _ = shown(deployed.by_hand("restart", stream="clicks", failed_epoch=1))
    assert line == "driver 2 is failed by now: nothing was done"
    assert len(submissions(deployed.world)) == 2


def test_a_recovery_shows_why_it_was_decided_and_the_end_of_the_log(deployed):
    deployed.world.streams["clicks"].log = [f"line {number}" for number in range(100)]
    deployed.world.end("clicks", ended_at=1.0)
    (request,) = deployed.tick().requests
    result = deployed.run(request)
    _, story = shown(result)
    assert story["reason"].startswith("driver 1 failed (exit code 1)")
    said = [entry.user_message for entry in deployed.instance.all_logs(result.run_id)]
    [tail] = [each for each in said if each.startswith("last log lines of driver 1:\n")]
    assert tail.splitlines()[1:] == [f"line {number}" for number in range(60, 100)]


@pytest.mark.parametrize("recovering", [False, True])
def test_a_stop_that_was_asked_for_after_it_holds_a_restart_by_hand_alone(deployed, recovering):
    """A recovery asks for the state of the driver itself."""
    deployed.world.end("clicks", DriverState.FAILED if recovering else DriverState.STOPPED)
    record = deployed.world.records["clicks"]
    later = replace(record, desired="stopped", asked={"stop": time.time()})
    deployed.world.records["clicks"] = later
    config = {"decided_at": time.time() - 100, **({"failed_epoch": 1} if recovering else {})}
    line, story = shown(deployed.by_hand("restart", stream="clicks", **config))
    assert story.get("action") == ("started" if recovering else None)
    assert ("nothing to do: 'clicks': stop was asked for 100 s" in line) != recovering
