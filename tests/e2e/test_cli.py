"""The command `sparkscale` as a person types it: a stream on a real cluster, from start to stop."""

import json
import subprocess
from pathlib import Path

import pytest

from dagster_sparkscale import LocalCluster
from tests.e2e.terminal import COMMAND, ROOT, THERE, declare, typed
from tests.waiting import HANGS, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.clusters]

STREAM = "commanded"


def row() -> dict[str, object]:
    # The cluster has streams of other tests, too, which this location does not declare.
    (row,) = [each for each in json.loads(typed("status", "--json")) if each["stream"] == STREAM]
    assert isinstance(row, dict)
    return row


def answered() -> str:
    """What `doctor` tells of a stream that answers."""
    told = typed("doctor", code=1)
    return told if "ok     commanded: answers, Spark 4." in told else ""


def test_a_stream_is_started_looked_at_scaled_followed_and_stopped(
    local_cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(monkeypatch, STREAM, tmp_path, local_cluster)

    assert row()["state"] != "running"
    assert "started driver" in typed("start", STREAM)
    try:
        assert row()["state"] == "running"
        assert "2 executors in" in typed("scale", STREAM, "2")
        # An agent that is busy is shown as one that does not answer.
        wait_for("2 of 2", lambda: (r := row()) and (r["registered"], r["requested"]) == (2, 2))
        assert "has a minimum of 1" in typed("scale", STREAM, "0", code=1)

        told = wait_for("its answer", answered)
        assert "WRONG  daemon: " in told  # none runs here

        driver = local_cluster.find(STREAM)
        assert driver is not None
        (last,) = local_cluster.logs(driver, 1).splitlines()
        assert last in typed("logs", STREAM)
        following = subprocess.Popen(
            [*COMMAND, "logs", STREAM, "--follow", *THERE],
            **{"cwd": ROOT, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True},
        )
        try:
            assert following.stdout is not None
            following.stdout.readline()  # it looks
            assert "is stopped now" in typed("stop", STREAM)
            written, _ = following.communicate(timeout=HANGS)
        finally:
            following.kill()
        assert following.returncode == 0
        assert "is stopped (stop requested)" in written
        assert "is stopped: " in typed("scale", STREAM, "1", code=1)
    finally:
        driver = local_cluster.find(STREAM)
        if driver is not None and driver.state.alive:
            with local_cluster.lease(STREAM, "end of the test", wait=60) as lease:
                local_cluster.stop(driver, lease, graceful=False, timeout=20)
