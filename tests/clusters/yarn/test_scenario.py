"""A stream's life on YARN, driven by tracked runs, from its start until nothing of it is left."""

from pathlib import Path
from typing import Any

import psutil
import pytest

from dagster_sparkscale.clusters.base import DriverState
from dev.yarn.rig import Address
from tests.clusters.running import SECRET, kill
from tests.clusters.yarn.cluster_mode import cluster_on, containers, no_secret_beside_logs
from tests.e2e.deployment import Deployment, deployed, paced_stream, told
from tests.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.yarn]


def test_started_scaled_killed_brought_back_attached_to_and_stopped(
    yarn: Address, tmp_path: Path
) -> None:
    cluster = cluster_on(yarn, tmp_path / "state")
    env = {"CLICKS_PASSWORD": SECRET}
    stream = paced_stream("spine", tmp_path, driver_memory="512m", env=env)
    with deployed(cluster, stream, tmp_path) as d:
        assert told(d.materialize())["action"] == "started"
        wait_for("one executor", lambda: d.registered() == 1)
        # The JVM and Python.
        assert len([each for each in containers(d.driver().app_id) if holds_secret(each)]) >= 2
        assert no_secret_beside_logs(yarn)

        d.pace(3.2)
        wait_for("two batches that took 3.2 s", lambda: d.all_took(2, 3.2))
        story = told(d.requested(asked_for(d, "rescale")))
        assert (story["executors_before"], story["executors_after"]) == (1, 3), story

        d.pace(0.1)
        story = told(d.requested(asked_for(d, "rescale")))
        assert (story["ending"], story["executors_after"]) == ("reached", 2), story

        killed = d.driver()
        for process in containers(killed.app_id, driver=True):
            kill(process.pid)
        wait_for("it to have failed", lambda: d.driver().state is DriverState.FAILED)
        assert d.driver().exit_reason == "killed by signal 9"
        assert told(d.requested(asked_for(d, "restart")))["action"] == "started"
        assert d.driver().epoch == killed.epoch + 1
        wait_for("two executors", lambda: d.registered() == 2)

        (tmp_path / "second").mkdir()
        second = Deployment(cluster_on(yarn, tmp_path / "state"), stream, tmp_path / "second")
        assert told(second.materialize())["action"] == "attached"
        last = d.driver()
        assert told(second.run("stop", reason="enough"))["state"] == "stopped"
        assert d.driver().state is DriverState.STOPPED and not d.tick().run_requests
    for app in (killed.app_id, last.app_id):
        assert app is not None
        wait_for("its containers to end", lambda app=app: not containers(app))
        assert not [path for path in Path(yarn.folder, "staging").rglob(app)]


def holds_secret(process: psutil.Process) -> bool:
    try:
        return process.environ().get("CLICKS_PASSWORD") == SECRET
    except psutil.Error:
        return False


def asked_for(d: Deployment, job: str) -> Any:
    """What the sensor asks for, once it asks for that."""

    def asked() -> Any:
        requests = d.tick().run_requests or []
        return next((each for each in requests if each.job_name == job), None)

    return wait_for(f"a run of {job}", asked, every=1)
