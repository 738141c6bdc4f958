"""The contract of a cluster manager, as tests. Every implementation passes all of them.

Subclass `ClusterContract` in a module named test_*, give it a `cluster` fixture (class scope) and
say how a driver is killed. Drivers are few, because each costs seconds: the tests share two
streams, and a fixture sees to it that the one a test is about runs, whatever was done to it before.
What needs no process is in `base_contract.py`.
"""

import contextlib
import json
import re
import signal
import stat
from abc import abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from dagster_sparkscale.clusters.base import ClusterManager, DriverState
from dagster_sparkscale.clusters.errors import (
    AgentRefused,
    ClusterError,
    OperationInProgress,
)
from dagster_sparkscale.declare.streams import StructuredStream
from dagster_sparkscale.driver.begin.fence import FILE
from dagster_sparkscale.driver.metrics.token import read_token
from tests.clusters.base_contract import BaseContract, Streams
from tests.clusters.running import (
    SECRET,
    in_another_process,
    newest,
    status,
    stop,
    stream,
    submit,
    wait_running,
)
from tests.files import below
from tests.waiting import HANGS, wait_for


class RunningContract(Streams):
    """What can be seen of a driver that runs. These tests run first: those of `BaseContract` stop
    that driver."""

    def test_a_submitted_stream_runs(self, running: ClusterManager) -> None:
        driver = newest(running, "clicks")
        assert driver.state is DriverState.RUNNING
        assert driver.agent_url is not None
        seen = wait_for("a batch", lambda: (s := status(running, "clicks")) and s.batches and s)
        assert seen and (seen.stream, seen.epoch, seen.phase) == ("clicks", driver.epoch, "running")
        assert [query.name for query in seen.queries] == ["rate"]
        assert seen.app_id is not None and newest(running, "clicks").app_id == seen.app_id
        history = running.history("clicks")
        # Each start has the next epoch, from 1 on.
        assert [line.epoch for line in history] == list(range(1, driver.epoch + 1))
        assert {line.cause for line in history} == {"manual"}
        assert history[-1].at == driver.submitted_at

    def test_only_the_batches_of_the_window_are_reported(self, running: ClusterManager) -> None:
        wait_for("three batches", lambda: (s := status(running, "clicks")) and len(s.batches) > 2)
        driver = newest(running, "clicks")
        everything = running.status(driver, HANGS)
        window = (everything.now - everything.batches[-1].completed_at) / 2
        recent = running.status(driver, HANGS, window)
        # The last one before the window says since when the first one in it has gathered.
        before, *batches = recent.batches
        assert before.completed_at < recent.now - window
        assert all(batch.completed_at >= recent.now - window for batch in batches)
        assert len(recent.batches) < len(everything.batches)

    def test_a_wrong_token_is_refused(self, running: ClusterManager) -> None:
        driver = newest(running, "clicks")
        agent = running.agent(driver)
        for token in ("", "wrong", "x" * 43):
            with pytest.raises(AgentRefused, match="refused the token") as caught:
                replace(agent, token=token).status(HANGS)
            assert not any(real in str(caught.value) for real in self.tokens(running))

    def test_the_end_of_the_log_can_be_read(self, running: ClusterManager) -> None:
        driver = newest(running, "clicks")
        wait_for(
            "the program's word",
            lambda: "the query goes on" in running.logs(driver, 1000),
            about=lambda: running.logs(driver, 60),
        )
        assert len(running.logs(driver, 2).splitlines()) == 2

    def test_no_secret_shows_in_a_process_list(self, running: ClusterManager) -> None:
        for secret in self._secrets(running):
            for process in psutil.process_iter():
                try:
                    line = " ".join(process.cmdline())
                except psutil.Error:
                    continue
                assert secret not in line, process

    def test_no_secret_shows_in_what_is_returned(self, running: ClusterManager) -> None:
        driver = newest(running, "clicks")
        seen = running.status(driver, HANGS)
        texts = [repr(running), repr(driver), repr(seen), running.logs(driver, 10_000)]
        for secret in self._secrets(running):
            assert not any(secret in text for text in texts)

    def test_nobody_else_can_read_a_file_with_a_secret(self, running: ClusterManager) -> None:
        secrets = [secret.encode() for secret in self._secrets(running)]
        for root in self.folders(running):
            for path in below(root):
                with contextlib.suppress(FileNotFoundError):  # gone meanwhile
                    if not any(each in path.read_bytes() for each in secrets):
                        continue
                    assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
                    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700, path.parent

    def _secrets(self, running: ClusterManager) -> list[str]:
        tokens = self.tokens(running)
        return [SECRET, *tokens, *map(read_token, tokens)]

    # What the tests of secrets need to know.

    @abstractmethod
    def tokens(self, cluster: Any) -> list[str]:
        """The agents' tokens."""

    @abstractmethod
    def folders(self, cluster: Any) -> list[Path]:
        """Folders in which a secret could lie."""


class ClusterContract(BaseContract, RunningContract):
    """What every cluster manager must do."""

    def test_a_program_that_does_not_exist_starts_nothing(self, cluster: ClusterManager) -> None:
        with pytest.raises(ClusterError, match=r"program = '/nowhere/a\.py': there is no file"):
            submit(cluster, stream("nothing", program="/nowhere/a.py"))
        assert cluster.find("nothing") is None

    def test_a_lease_of_another_process_excludes_until_that_is_killed(
        self, cluster: ClusterManager
    ) -> None:
        holder = in_another_process(
            cluster,
            "with cluster.lease('leased', 'rescale run 1a2b'):\n"
            "    print('held', flush=True)\n"
            "    input()\n",
        )
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with (
            pytest.raises(OperationInProgress, match="rescale run 1a2b has held 'leased'"),
            cluster.lease("leased", "stop run 3c4d"),
        ):
            pytest.fail("held twice")
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        # At once where it can be told that the holder is dead, else when the lease has expired.
        with cluster.lease("leased", "stop run 3c4d", wait=HANGS):
            pass

    def test_a_driver_leaves_its_mark_in_its_checkpoint(
        self, idling: ClusterManager, streams: tuple[StructuredStream, ...]
    ) -> None:
        assert streams[1].checkpoint_location is not None
        mark = Path(streams[1].checkpoint_location) / FILE
        epoch = newest(idling, "idle").epoch
        told = json.loads(mark.read_text())
        assert (told["stream"], told["epoch"], told["ended"]) == ("idle", epoch, False)

    # Starts and ends that go wrong.

    def test_a_program_without_a_query_runs_and_reports_none(self, idling: ClusterManager) -> None:
        seen = wait_running(idling, "idle")
        assert seen.queries == () and seen.batches == ()

    def test_stopping_at_once_leaves_nothing_either(self, idling: ClusterManager) -> None:
        stopped = stop(idling, "idle", graceful=False)
        assert stopped.state is DriverState.STOPPED
        assert self.nothing_left(idling, "idle", stopped.epoch)

    def test_a_program_that_crashes_is_told_with_the_end_of_its_log(
        self, cluster: ClusterManager
    ) -> None:
        # Set for this one start, as JSON travels: quotes, braces and all.
        topic = '{"of": "clicks: 1 = 1"}'
        # Whether it lives long enough for its agent to be announced is a matter of luck.
        try:
            submit(cluster, stream("crash", "crash.py"), settings={"spark.topic": topic})
        except ClusterError as error:
            assert f"no such topic: {topic}" in str(error)
        failed = wait_for(
            "the crash", lambda: (d := newest(cluster, "crash")).state is DriverState.FAILED and d
        )
        why = failed.exit_reason if failed else ""
        told = re.fullmatch(rf"exit code 1: \w+: no such topic: {re.escape(topic)}", why or "")
        assert told, f"{failed}\n{cluster.logs(failed, 200)}"
        assert f"no such topic: {topic}" in cluster.logs(failed)
        stopped = stop(cluster, "crash")
        assert stopped.state is DriverState.STOPPED
        assert stopped.exit_reason == f"{why}, before it was asked to stop"

    def test_a_driver_that_cannot_even_start_is_an_error(self, cluster: ClusterManager) -> None:
        with pytest.raises(ClusterError, match=r"(?s)'stillborn' ended at once: .*log.*encodings"):
            submit(cluster, stream("stillborn", env={"PYTHONHOME": "/nowhere"}))
        failed = newest(cluster, "stillborn")
        assert failed.state is DriverState.FAILED
        wait_for(
            "all of it to be gone",
            lambda: self.nothing_left(cluster, "stillborn", failed.epoch),
        )
