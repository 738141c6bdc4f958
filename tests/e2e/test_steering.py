"""A stream on a real cluster that a person pins from a terminal while the autoscaler is at work."""

from pathlib import Path

import pytest
from dagster._core.definitions.sensor_definition import SensorExecutionData

from dagster_sparkscale import LocalCluster, RatioPolicy
from tests.e2e.deployment import Deployment, deployed, paced_stream, told, wait_for_request
from tests.e2e.terminal import declare, typed
from tests.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.clusters]

STREAM = "steered"


def wait_for_hold(d: Deployment, reason: str) -> str:
    """Tick until a tick holds for that reason; none may ask for anything."""
    found: list[str] = []

    def held() -> bool:
        tick: SensorExecutionData = d.tick()
        assert not tick.run_requests, tick.run_requests
        found.append(tick.skip_message or "")
        return reason in found[-1]

    wait_for(f"a tick that holds: {reason}", held, every=1)
    return found[-1]


def test_the_autoscaler_holds_a_pin_gets_it_back_and_goes_on_once_it_is_resumed(
    local_cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(monkeypatch, STREAM, tmp_path, local_cluster)
    policy = RatioPolicy(interval=10, max_executors=2)
    stream = paced_stream(STREAM, tmp_path, autoscale=policy)
    with deployed(local_cluster, stream, tmp_path) as d:
        assert d.materialize().success
        typed("pin", STREAM, "1", "--reason", "load test")
        d.pace(5)  # each batch takes more than twice its interval
        said = wait_for_hold(d, "the policy would go to 2")
        assert "pinned to 1 by steer run " in said and "(load test)" in said
        assert d.registered() == 1

        assert "ended: pinned to 1" in typed("resume", STREAM)
        d.pace(5)
        (request,) = wait_for_request(d, "rescale").run_requests or []
        assert told(d.requested(request))["executors_after"] == 2

        typed("pin", STREAM, "1")
        d.pace(5)
        (request,) = wait_for_request(d, "rescale").run_requests or []
        assert told(d.requested(request))["executors_after"] == 1
        wait_for_hold(d, "pinned to 1 by steer run ")
