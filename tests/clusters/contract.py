"""The contract of a cluster manager, as tests. Every implementation passes all of them.

Subclass `ClusterContract` in a module named test_*, give it a `cluster` fixture (class scope) and
say how a driver is killed. Drivers are few, because each costs seconds: the tests of one running
driver share it, in the order in which they stand here.
"""

import os
import signal
import stat
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from dagster_sparkscale.clusters.agent_client import AgentClient
from dagster_sparkscale.clusters.base import (
    AgentRefused,
    AgentUnreachable,
    AlreadyRunning,
    ClusterError,
    ClusterManager,
    Driver,
    DriverState,
    Lease,
    OperationInProgress,
    StaleEpoch,
)
from dagster_sparkscale.observations import Status
from dagster_sparkscale.streams import StructuredStream
from tests.waiting import wait_for

PROGRAMS = Path(__file__).parents[1] / "programs"
SECRET = "hunter2-never-to-be-seen"


def stream(name: str, program: str = "idle.py", **fields: Any) -> StructuredStream:
    """A small stream. Its cores are bounded: an unbounded one would take all that the cluster has
    when it starts."""
    given: dict[str, Any] = {
        "program": str(PROGRAMS / program),
        "batch_interval": "1s",
        "executor_memory": "512m",
        "driver_memory": "512m",
        "spark_conf": {"spark.cores.max": 3, "spark.hadoop.fs.s3a.secret.key": SECRET},
        "env": {"CLICKS_PASSWORD": SECRET},
        **fields,
    }
    return StructuredStream(name=name, **given)


def newest(cluster: ClusterManager, name: str) -> Driver:
    driver = cluster.find(name)
    assert driver is not None
    return driver


def status(cluster: ClusterManager, name: str) -> Status | None:
    """The stream's status now; None while its agent does not answer."""
    try:
        return cluster.status(newest(cluster, name))
    except AgentUnreachable:
        return None


def wait_running(cluster: ClusterManager, name: str, executors: int = 1) -> Status:
    """The stream's status once that many executors, no more and no fewer, have registered."""

    def look() -> Status | None:
        driver = newest(cluster, name)
        assert driver.state.alive, f"{driver}\n{cluster.logs(driver, 30)}"
        seen = status(cluster, name)
        return seen if seen and seen.phase == "running" and seen.registered == executors else None

    seen = wait_for(f"{name} with {executors} executor(s)", look, 120)
    assert seen is not None
    return seen


def stop(cluster: ClusterManager, name: str, **how: Any) -> Driver:
    with cluster.lease(name, "test", wait=30) as lease:
        return cluster.stop(newest(cluster, name), lease, **how)


def submit(cluster: ClusterManager, declared: StructuredStream, cause: str = "manual") -> Driver:
    with cluster.lease(declared.name, "test", wait=60) as lease:
        return cluster.submit(declared, lease, cause)


def in_another_process(cluster: ClusterManager, code: str) -> subprocess.Popen[str]:
    """Run `code` in a process of its own, with `cluster` made anew from its fields."""
    kind = type(cluster)
    fields = {name: getattr(cluster, name) for name in kind.model_fields}
    head = (
        f"from {kind.__module__} import {kind.__name__}\ncluster = {kind.__name__}(**{fields!r})\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", head + code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


class ClusterContract(ABC):
    """What every cluster manager must do."""

    @pytest.fixture(scope="class")
    @classmethod
    @abstractmethod
    def cluster(cls) -> Iterator[ClusterManager]:
        """The implementation, ready to take drivers."""

    @abstractmethod
    def kill_driver(self, cluster: Any, driver: Driver) -> None:
        """Kill the driver's process as the kernel does when memory runs out."""

    @abstractmethod
    def nothing_left(self, cluster: Any, name: str, epoch: int) -> bool:
        """Whether no process of that start of the stream is left."""

    @pytest.fixture(scope="class")
    @classmethod
    def running(cls, cluster: ClusterManager) -> Iterator[ClusterManager]:
        """The cluster with a stream `clicks` that runs with one executor."""
        submit(cluster, stream("clicks", "rate.py"))
        wait_running(cluster, "clicks")
        yield cluster
        stop(cluster, "clicks", graceful=False)

    def anew(self, cluster: ClusterManager) -> ClusterManager:
        """The same cluster manager as a restarted Dagster would make it."""
        kind = type(cluster)
        return kind(**{name: getattr(cluster, name) for name in kind.model_fields})

    # A stream that was never started.

    def test_a_stream_never_started_is_not_found(self, cluster: ClusterManager) -> None:
        assert cluster.find("never") is None
        assert list(cluster.history("never")) == []

    def test_a_program_that_does_not_exist_starts_nothing(self, cluster: ClusterManager) -> None:
        with pytest.raises(ClusterError, match=r"program = '/nowhere/a\.py': there is no file"):
            submit(cluster, stream("nothing", program="/nowhere/a.py"))
        assert cluster.find("nothing") is None

    # The lease.

    def test_a_lease_excludes_others_and_names_its_holder(self, cluster: ClusterManager) -> None:
        with cluster.lease("leased", "rescale run 1a2b") as lease:
            assert lease == Lease("leased", "rescale run 1a2b")
            with (
                pytest.raises(OperationInProgress, match="rescale run 1a2b has held 'leased'"),
                self.anew(cluster).lease("leased", "stop run 3c4d", wait=0.2),
            ):
                pytest.fail("held twice")
            with cluster.lease("other", "stop run 3c4d"):
                pass

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
        with cluster.lease("leased", "stop run 3c4d"):
            pass

    # One running driver.

    def test_a_submitted_stream_runs(self, running: ClusterManager) -> None:
        driver = newest(running, "clicks")
        assert driver.state is DriverState.RUNNING
        assert driver.epoch == 1
        assert driver.agent_url is not None
        seen = wait_for("a batch", lambda: (s := status(running, "clicks")) and s.batches and s)
        assert seen and (seen.stream, seen.epoch, seen.phase) == ("clicks", 1, "running")
        assert [query.name for query in seen.queries] == ["rate"]
        assert seen.app_id is not None and newest(running, "clicks").app_id == seen.app_id
        history = running.history("clicks")
        assert [(line.epoch, line.cause) for line in history] == [(1, "manual")]
        assert history[0].at == driver.submitted_at

    def test_only_the_batches_of_the_window_are_reported(self, running: ClusterManager) -> None:
        wait_for("two batches", lambda: (s := status(running, "clicks")) and len(s.batches) > 1)
        driver = newest(running, "clicks")
        everything = running.status(driver)
        window = (everything.now - everything.batches[-1].completed_at) / 2
        recent = running.status(driver, window=window)
        assert all(batch.completed_at >= recent.now - window for batch in recent.batches)
        assert len(recent.batches) < len(everything.batches)

    def test_a_restarted_dagster_finds_it_again(self, running: ClusterManager) -> None:
        driver = newest(running, "clicks")
        again = self.anew(running)
        assert again.find("clicks") == driver
        assert again.status(driver).epoch == 1

    def test_a_second_driver_is_refused(self, running: ClusterManager) -> None:
        with pytest.raises(AlreadyRunning, match="'clicks' is running already, epoch 1"):
            submit(self.anew(running), stream("clicks", "rate.py"))
        assert newest(running, "clicks").epoch == 1

    def test_a_change_needs_the_streams_lease(self, running: ClusterManager) -> None:
        with running.lease("other", "test") as lease:
            with pytest.raises(ClusterError, match="for 'other', not for 'clicks'"):
                running.submit(stream("clicks", "rate.py"), lease)
            with pytest.raises(ClusterError, match="for 'other', not for 'clicks'"):
                running.stop(newest(running, "clicks"), lease)
        with pytest.raises(ClusterError, match="is over"):
            running.stop(newest(running, "clicks"), Lease("clicks", "test"))

    def test_the_number_of_executors_follows_the_target(self, running: ClusterManager) -> None:
        driver = newest(running, "clicks")
        for target in (3, 1):
            assert running.scale(driver, target).requested == target
            assert running.scale(driver, target).requested == target
            assert wait_running(running, "clicks", executors=target).requested == target

    def test_a_target_that_makes_no_sense_is_refused(self, running: ClusterManager) -> None:
        with pytest.raises(AgentRefused, match="target"):
            running.scale(newest(running, "clicks"), -1)

    def test_an_old_epoch_changes_nothing(self, running: ClusterManager) -> None:
        old = replace(newest(running, "clicks"), epoch=0)
        with pytest.raises(StaleEpoch, match="at epoch 1"):
            running.scale(old, 2)
        with (
            running.lease("clicks", "test") as lease,
            pytest.raises(StaleEpoch, match="at epoch 1"),
        ):
            running.stop(old, lease)
        assert newest(running, "clicks").state is DriverState.RUNNING

    def test_a_wrong_token_is_refused(self, running: ClusterManager) -> None:
        url = newest(running, "clicks").agent_url
        assert url is not None
        for token in ("", "wrong", "x" * 43):
            with pytest.raises(AgentRefused, match="refused the token") as caught:
                AgentClient().status("clicks", url, token, 5.0)
            assert not any(real in str(caught.value) for real in self.tokens(running))

    def test_the_end_of_the_log_can_be_read(self, running: ClusterManager) -> None:
        driver = newest(running, "clicks")
        assert "the query is about to start" in running.logs(driver, 1000)
        assert len(running.logs(driver, 2).splitlines()) == 2

    def test_the_capacity_counts_what_is_in_use(self, running: ClusterManager) -> None:
        capacity = running.capacity()
        assert capacity is not None
        assert capacity.workers == len(capacity.details) >= 1
        assert 0 < capacity.cores - capacity.free_cores <= capacity.cores

    def test_no_secret_shows_in_a_process_list(self, running: ClusterManager) -> None:
        for secret in [SECRET, *self.tokens(running)]:
            for process in psutil.process_iter():
                try:
                    line = " ".join(process.cmdline())
                except psutil.Error:
                    continue
                assert secret not in line, process

    def test_no_secret_shows_in_what_is_returned(self, running: ClusterManager) -> None:
        driver = newest(running, "clicks")
        seen = running.status(driver)
        texts = [repr(running), repr(driver), repr(seen), running.logs(driver, 10_000)]
        for secret in [SECRET, *self.tokens(running)]:
            assert not any(secret in text for text in texts)

    def test_nobody_else_can_read_a_file_with_a_secret(self, running: ClusterManager) -> None:
        secrets = [SECRET.encode(), *(token.encode() for token in self.tokens(running))]
        for root in self.folders(running):
            for path in root.rglob("*"):
                if not path.is_file() or not any(each in path.read_bytes() for each in secrets):
                    continue
                assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
                assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700, path.parent

    def test_stopping_finishes_the_batch_and_leaves_nothing(self, running: ClusterManager) -> None:
        driver = stop(running, "clicks", graceful=True, timeout=60)
        assert driver.state is DriverState.STOPPED
        assert driver.exit_reason == "stop requested"
        assert driver.ended_at is not None and driver.ended_at > driver.submitted_at
        assert self.nothing_left(running, "clicks", 1)
        assert newest(self.anew(running), "clicks") == driver
        with pytest.raises(AgentUnreachable, match="'clicks'"):
            running.status(driver)

    def test_stopping_again_is_no_error(self, running: ClusterManager) -> None:
        before = stop(running, "clicks")
        assert stop(running, "clicks") == before
        assert before.state is DriverState.STOPPED

    # Starts and ends that go wrong.

    def test_two_submissions_at_once_start_one_driver(self, cluster: ClusterManager) -> None:
        outcomes: list[Driver | ClusterError] = []

        def start() -> None:
            try:
                outcomes.append(submit(self.anew(cluster), stream("twice")))
            except ClusterError as error:
                outcomes.append(error)

        threads = [threading.Thread(target=start) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(type(outcome).__name__ for outcome in outcomes) == [
            "AlreadyRunning",
            "Driver",
        ]
        assert newest(cluster, "twice").epoch == 1

    def test_a_program_without_a_query_runs_and_reports_none(self, cluster: ClusterManager) -> None:
        seen = wait_running(cluster, "twice")
        assert seen.queries == () and seen.batches == ()

    def test_a_killed_driver_has_failed_and_can_be_started_again(
        self, cluster: ClusterManager
    ) -> None:
        old = newest(cluster, "twice")
        self.kill_driver(cluster, old)
        failed = wait_for(
            "the driver to have failed",
            lambda: (d := newest(cluster, "twice")).state is DriverState.FAILED and d,
        )
        assert failed and failed.exit_reason == "killed by signal 9"
        driver = submit(cluster, stream("twice"), "recovery")
        assert driver.epoch == 2
        assert self.nothing_left(cluster, "twice", 1)
        assert [line.cause for line in cluster.history("twice")] == ["manual", "recovery"]
        wait_running(cluster, "twice")
        with pytest.raises(StaleEpoch, match="at epoch 2; the driver of epoch 1 is gone"):
            cluster.scale(old, 2)
        with pytest.raises((AgentUnreachable, AgentRefused)):
            cluster.status(old)

    def test_stopping_at_once_leaves_nothing_either(self, cluster: ClusterManager) -> None:
        assert stop(cluster, "twice", graceful=False).state is DriverState.STOPPED
        assert self.nothing_left(cluster, "twice", 2)

    def test_a_program_that_crashes_is_told_with_the_end_of_its_log(
        self, cluster: ClusterManager
    ) -> None:
        # Whether it lives long enough for its agent to be announced is a matter of luck.
        try:
            submit(cluster, stream("crash", "crash.py"))
        except ClusterError as error:
            assert "no such topic: clicks" in str(error)
        failed = wait_for(
            "the crash", lambda: (d := newest(cluster, "crash")).state is DriverState.FAILED and d
        )
        assert failed and failed.exit_reason == "exit code 1"
        assert "no such topic: clicks" in cluster.logs(failed)
        stopped = stop(cluster, "crash")
        assert stopped.state is DriverState.STOPPED
        assert stopped.exit_reason == "exit code 1, before it was asked to stop"

    def test_a_driver_that_cannot_even_start_is_an_error(self, cluster: ClusterManager) -> None:
        with pytest.raises(ClusterError, match=r"(?s)'stillborn' ended at once: .*log.*encodings"):
            submit(cluster, stream("stillborn", env={"PYTHONHOME": "/nowhere"}))
        assert newest(cluster, "stillborn").state is DriverState.FAILED
        wait_for("all of it to be gone", lambda: self.nothing_left(cluster, "stillborn", 1))

    # What the tests of secrets need to know.

    @abstractmethod
    def tokens(self, cluster: Any) -> list[str]:
        """The agents' tokens."""

    @abstractmethod
    def folders(self, cluster: Any) -> list[Path]:
        """Folders in which a secret could lie."""


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
