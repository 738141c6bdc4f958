"""The whole chain where drivers run on the workers of a Standalone cluster."""

import signal
from pathlib import Path

import psutil
import pytest

from dagster_sparkscale.clusters.base import DriverState
from dev.standalone import Standalone
from tests.clusters.rest_mode import environment, nothing_left, on, pid_of
from tests.e2e.deployment import deployed, paced_stream, told, wait_for_request
from tests.waiting import HANGS, wait_for

pytestmark = pytest.mark.spark


def test_a_stream_is_started_scaled_killed_found_again_and_stopped(tmp_path: Path) -> None:
    state, first_home, second_home = tmp_path / "state", tmp_path / "one", tmp_path / "two"
    first_home.mkdir()
    second_home.mkdir()
    stream = paced_stream("spine", tmp_path)
    with Standalone(
        tmp_path / "cluster", cores=8, environment=environment(), wait_seconds=HANGS
    ) as standalone:
        with deployed(on(standalone, state), stream, first_home) as d:
            assert told(d.materialize())["action"] == "started"
            wait_for("one executor", lambda: d.registered() == 1)

            (tmp_path / "pace").write_text("3.2")
            wait_for("two batches that took 3.2 s", lambda: d.all_took(2, 3.2))
            [request] = wait_for_request(d, "rescale").run_requests or []
            story = told(d.requested(request))
            assert (story["executors_before"], story["executors_after"]) == (1, 3), story

            (tmp_path / "pace").write_text("0.1")
            [request] = wait_for_request(d, "rescale").run_requests or []
            assert told(d.requested(request))["executors_after"] == 2

            killed = d.driver()
            jvm = psutil.Process(pid_of(standalone, on(standalone, state), killed)).parents()[1]
            jvm.send_signal(signal.SIGKILL)
            wait_for("the failure", lambda: d.driver().state is DriverState.FAILED)
            [request] = wait_for_request(d, "restart").run_requests or []
            assert told(d.requested(request))["action"] == "started"
            assert d.driver().epoch == killed.epoch + 1
            wait_for("as many executors as before", lambda: d.registered() == 2)

            with deployed(on(standalone, state), stream, second_home) as second:
                assert told(second.materialize())["action"] == "attached"
                assert second.driver().epoch == killed.epoch + 1
                assert told(second.run("stop", reason="enough"))["state"] == "stopped"

        overview = standalone.overview() or {}
        assert overview["activedrivers"] == [] and overview["activeapps"] == []
        assert nothing_left(standalone, "spine", killed.epoch)
        assert nothing_left(standalone, "spine", killed.epoch + 1)
        assert list(standalone.folder.rglob("sparkscale-*")) == []
