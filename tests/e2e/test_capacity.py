"""A stream on a real cluster is scaled by what the sensor has learned of its minutes."""

from pathlib import Path

import pytest

from dagster_sparkscale import CapacityPolicy, LocalCluster
from tests.e2e.deployment import deployed, paced_stream, told, wait_for_request
from tests.waiting import wait_for

pytestmark = pytest.mark.spark

INTERVAL = 5.0


@pytest.mark.clusters
def test_a_rescale_run_carries_the_sum_by_which_a_learned_stream_was_sized(
    local_cluster: LocalCluster, tmp_path: Path
) -> None:
    policy = CapacityPolicy(interval=INTERVAL, max_executors=3)
    stream = paced_stream("learned", tmp_path, autoscale=policy)
    with deployed(local_cluster, stream, tmp_path) as d:
        assert d.materialize().success
        said: list[str] = []

        def knows() -> bool:
            said.append(d.tick().skip_message or "")
            return "hold: needs " in said[-1]

        wait_for(
            "a tick that holds by a size", knows, every=INTERVAL, about=lambda: "\n".join(said)
        )
        assert any("(by R: it learns from " in each for each in said)

        d.pace(4)  # each batch takes twice its interval
        (request,) = wait_for_request(d, "rescale").run_requests or []
        reason = request.run_config["ops"]["rescale"]["config"]["reason"]
        assert "by R" not in reason
        assert "executors for " in reason and "records/s (" in reason
        story = told(d.requested(request))
        assert story["reason"] == reason
        assert story["executors_after"] > story["executors_before"] == 1
