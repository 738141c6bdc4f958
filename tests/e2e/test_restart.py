"""Streams outlive Dagster, and an operation that dies half-way harms none."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from dagster_sparkscale import LocalCluster
from dagster_sparkscale.clusters.base import Driver
from dev.dagster_ui import AT_ONCE, DagsterUI
from dev.processes import Children, port_to_use
from tests.waiting import HANGS, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.clusters]

ROOT = Path(__file__).parents[2]


class Dagster:
    """A real webserver with its code server; runs are processes of their own below it.

    Args:
        watches: whether there is a daemon, too, which evaluates the sensor.
    """

    def __init__(
        self,
        children: Children,
        folder: Path,
        instance: dg.DagsterInstance,
        location: str = "tests.e2e.location",
        *,
        stream: str = "survivor",
        watches: bool = False,
    ) -> None:
        self.instance, self._stream = instance, stream
        port = port_to_use(0)
        command = [sys.executable, "-m", "dagster_webserver", "-h", "127.0.0.1", "-p", str(port)]
        env = {**os.environ, "DAGSTER_HOME": str(folder / "home")}
        self.group = children.start("webserver", [*command, "-m", location], env, ROOT)
        self._ui = DagsterUI(f"http://127.0.0.1:{port}")
        self._location = self._ui.wait_until_loaded(HANGS, lambda: None)
        self.daemon: int | None = None
        """Its process."""
        if watches:
            command = [sys.executable, "-m", "dagster._daemon", "run", "-m", location]
            self.daemon = children.start("daemon", command, env, ROOT)

    def materialize(self) -> str:
        return self._ui.materialize(self._location, self._stream)

    def launch(self, job: str, **config: Any) -> str:
        given = {"stream": self._stream, **config}
        return self._ui.launch(self._location, job, {"ops": {job: {"config": given}}})

    def ended(self, run_id: str) -> dg.DagsterRun | None:
        """The run, if it has ended."""
        run = self.instance.get_run_by_id(run_id)
        return run if run and run.is_finished else None

    def succeed(self, run_id: str) -> None:
        run = wait_for(f"run {run_id} to end", lambda: self.ended(run_id), 240, every=0.5)
        assert run and run.is_success, [e.user_message for e in self.instance.all_logs(run_id)][-5:]

    def said(self, run_id: str, text: str) -> bool:
        return any(text in entry.user_message for entry in self.instance.all_logs(run_id))


@contextmanager
def processes(folder: Path) -> Iterator[Children]:
    children = Children(folder / "processes.json", folder / "logs")
    try:
        yield children
    finally:
        children.end("webserver", "daemon")


def test_a_rescale_cut_off_by_a_restart_of_dagster_leaves_a_stream_that_is_found_and_scaled_again(
    local_cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARKSCALE_TEST_STREAM", "survivor")
    monkeypatch.setenv("SPARKSCALE_TEST_FOLDER", str(tmp_path))
    monkeypatch.setenv("SPARKSCALE_TEST_STATE", local_cluster.state_dir)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "dagster.yaml").write_text(AT_ONCE)
    with (
        processes(tmp_path) as children,
        dg.DagsterInstance.from_config(str(tmp_path / "home")) as instance,
    ):
        dagster = Dagster(children, tmp_path, instance)
        dagster.succeed(dagster.materialize())
        first = found(local_cluster)

        # More than there is room for: the run waits. Everything of Dagster's is killed meanwhile.
        run_id = dagster.launch("rescale", target=4, wait_seconds=300.0)
        wait_for("the request", lambda: dagster.said(run_id, "requested 4 executors"))
        os.killpg(dagster.group, signal.SIGKILL)
        wait_for("the end of Dagster", lambda: children.ended() is not None)
        children.end("webserver")

        dagster = Dagster(children, tmp_path, instance)
        assert found(local_cluster).epoch == first.epoch
        attach = dagster.materialize()
        dagster.succeed(attach)
        assert dagster.said(attach, "runs already")
        dagster.succeed(dagster.launch("rescale", target=1))
        status = local_cluster.status(found(local_cluster), HANGS)
        assert (status.epoch, status.registered, status.requested) == (first.epoch, 1, 1)
        assert [start.epoch for start in local_cluster.history("survivor")] == [first.epoch]
        dagster.succeed(dagster.launch("stop"))


def found(cluster: LocalCluster) -> Driver:
    driver = cluster.find("survivor")
    assert driver is not None
    return driver
