"""Another number of receivers, and drivers that are killed after it: what was received is never
left behind in a checkpoint that nobody reads any more."""

import contextlib
import os
import signal
from pathlib import Path

import pytest

from dagster_sparkscale import ClusterManager
from dagster_sparkscale.clusters.base import DriverState
from tests.driver.acking import Source
from tests.e2e.deployment import Deployment, deployed, told
from tests.e2e.test_faults import driver_process
from tests.e2e.test_receivers import log_of, pause, processed, receiving, runs, taken
from tests.waiting import wait_for

pytestmark = pytest.mark.spark


def killed(d: Deployment) -> None:
    os.kill(driver_process(d).pid, signal.SIGKILL)
    wait_for("the failure", lambda: d.driver().state is DriverState.FAILED)


def test_a_number_that_was_set_and_one_that_is_declared_lose_nothing(
    local_cluster: ClusterManager, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    with contextlib.closing(Source()) as source:
        stream = receiving(tmp_path, source.port)
        with deployed(local_cluster, stream, tmp_path) as d:
            told(d.materialize())
            runs(d, 2)
            taken(d, source)
            told(d.run("set_receivers", receivers=3))
            taken(d, source)
            # A plain recovery has the number and the folder that were set.
            killed(d)
            told(d.materialize())
            runs(d, 3)
            assert d.driver().receivers == 3 and (checkpoint / "receivers-1").is_dir()
            # One that is declared otherwise has to wait: what was received waits in the folder.
            pause(tmp_path, 5)
            taken(d, source)
            killed(d)
            declared = stream.model_copy(update={"receivers": 1})
            (tmp_path / "one").mkdir()
            one = Deployment(local_cluster, declared, tmp_path / "one")
            pause(tmp_path, 0)
            told(one.materialize())
            runs(one, 3)
            taken(one, source)
            # After a clean end it is in force.
            told(one.run("restart"))
            runs(one, 1)
            assert (checkpoint / "receivers-2").is_dir()
            taken(one, source)
            source.end()
            wait_for("all is taken", lambda: source.all_taken, about=log_of(one))
            told(one.run("stop"))
            assert source.acknowledged - processed(tmp_path) == set()
