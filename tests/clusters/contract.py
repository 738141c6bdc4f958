"""The contract of a cluster manager, as tests. Every implementation passes all of them.

Subclass `ClusterContract` in a module named test_*, give it a `cluster` fixture (class scope) and
say how a driver is killed. Drivers are few, because each costs seconds: the tests share two
streams, and a fixture sees to it that the one a test is about runs, whatever was done to it before.
"""

import contextlib
import json
import re
import signal
import stat
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from dagster_sparkscale.clusters.base import ClusterManager, Driver, DriverState
from dagster_sparkscale.clusters.errors import (
    AgentRefused,
    AgentUnreachable,
    AlreadyRunning,
    ClusterError,
    Held,
    LeaseLost,
    OperationInProgress,
    StaleEpoch,
)
from dagster_sparkscale.declare.streams import StructuredStream
from dagster_sparkscale.driver.fence import FILE
from dagster_sparkscale.driver.rates import BadRates
from tests.clusters.running import (
    SECRET,
    in_another_process,
    newest,
    scale,
    see_ended,
    see_to,
    status,
    stop,
    stream,
    submit,
    wait_running,
)
from tests.files import below
from tests.waiting import HANGS, wait_for


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
    def streams(
        cls, cluster: ClusterManager, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[tuple[StructuredStream, ...]]:
        """Two streams that end with the class: one with a query, one without; that one declares
        its checkpoint."""
        place = tmp_path_factory.mktemp("checkpoints") / "idle"
        declared = stream("clicks", "rate.py"), stream("idle", checkpoint_location=str(place))
        yield declared
        for each in declared:
            see_ended(cluster, each.name)

    @pytest.fixture
    def running(
        self, cluster: ClusterManager, streams: tuple[StructuredStream, ...]
    ) -> ClusterManager:
        """The cluster with the stream `clicks` that runs with one executor."""
        see_to(cluster, streams[0])
        return cluster

    @pytest.fixture
    def idling(
        self, cluster: ClusterManager, streams: tuple[StructuredStream, ...]
    ) -> ClusterManager:
        """The cluster with the stream `idle`, whose program has no query, with one executor."""
        see_to(cluster, streams[1])
        return cluster

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
            assert (lease.stream, lease.holder) == ("leased", "rescale run 1a2b")
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
        # At once where it can be told that the holder is dead, else when the lease has expired.
        with cluster.lease("leased", "stop run 3c4d", wait=HANGS):
            pass

    def test_each_operation_has_a_higher_number_than_those_before(
        self, cluster: ClusterManager
    ) -> None:
        with cluster.lease("leased", "test", wait=HANGS) as first:
            pass
        with self.anew(cluster).lease("leased", "test", wait=HANGS) as second:
            assert second.number > first.number

    # One running driver.

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
        wait_for("two batches", lambda: (s := status(running, "clicks")) and len(s.batches) > 1)
        driver = newest(running, "clicks")
        everything = running.status(driver, HANGS)
        window = (everything.now - everything.batches[-1].completed_at) / 2
        recent = running.status(driver, HANGS, window)
        assert all(batch.completed_at >= recent.now - window for batch in recent.batches)
        assert len(recent.batches) < len(everything.batches)

    def test_a_restarted_dagster_finds_it_again(self, running: ClusterManager) -> None:
        driver = newest(running, "clicks")
        again = self.anew(running)
        assert again.find("clicks") == driver
        assert again.status(driver, HANGS).epoch == driver.epoch

    def test_a_second_driver_is_refused(self, running: ClusterManager) -> None:
        epoch = newest(running, "clicks").epoch
        with pytest.raises(AlreadyRunning, match=f"'clicks' is running already, epoch {epoch},"):
            submit(self.anew(running), stream("clicks", "rate.py"))
        assert newest(running, "clicks").epoch == epoch

    def test_a_change_needs_the_streams_lease(self, running: ClusterManager) -> None:
        with running.lease("other", "test") as lease:
            with pytest.raises(ClusterError, match="for 'other', not for 'clicks'"):
                running.submit(stream("clicks", "rate.py"), lease)
            with pytest.raises(ClusterError, match="for 'other', not for 'clicks'"):
                running.stop(newest(running, "clicks"), lease)
        with running.lease("clicks", "test") as lease:
            pass
        with pytest.raises(LeaseLost, match="is over"):
            running.stop(newest(running, "clicks"), lease)

    def test_the_number_of_executors_follows_the_target(self, running: ClusterManager) -> None:
        for target in (3, 1):
            assert scale(running, "clicks", target).requested == target
            assert scale(running, "clicks", target).requested == target
            assert wait_running(running, "clicks", executors=target).requested == target

    def test_a_target_that_makes_no_sense_is_refused(self, running: ClusterManager) -> None:
        with pytest.raises(AgentRefused, match="target"):
            running.scale(newest(running, "clicks"), -1, HANGS)

    def test_limits_of_sources_are_stated_as_a_whole(self, running: ClusterManager) -> None:
        driver = newest(running, "clicks")
        limits = {"web": {"maxRecordsPerTrigger": 9}, "*": {"maxRate": 2.5}}
        assert running.set_rates(driver, limits, HANGS).rates == limits
        less = {"*": {"maxRate": 7}}
        assert running.set_rates(driver, less, HANGS).rates == less
        with pytest.raises(BadRates, match=r"web\.maxRate: 0: must be"):
            running.set_rates(driver, {"web": {"maxRate": 0}}, HANGS)
        assert running.set_rates(driver, {}, HANGS).rates == {}

    def test_an_old_epoch_changes_nothing(self, running: ClusterManager) -> None:
        driver = newest(running, "clicks")
        old, newer = replace(driver, epoch=driver.epoch - 1), f"at epoch {driver.epoch};"
        with pytest.raises(StaleEpoch, match=newer):
            running.scale(old, 2)
        with pytest.raises(StaleEpoch, match=newer):
            running.set_rates(old, {"web": {"maxRate": 1}})
        with running.lease("clicks", "test") as lease, pytest.raises(StaleEpoch, match=newer):
            running.stop(old, lease)
        assert newest(running, "clicks").state is DriverState.RUNNING

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

    def test_the_capacity_counts_what_is_in_use(self, running: ClusterManager) -> None:
        capacity = wait_for("the capacity", running.capacity)
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
        seen = running.status(driver, HANGS)
        texts = [repr(running), repr(driver), repr(seen), running.logs(driver, 10_000)]
        for secret in [SECRET, *self.tokens(running)]:
            assert not any(secret in text for text in texts)

    def test_nobody_else_can_read_a_file_with_a_secret(self, running: ClusterManager) -> None:
        secrets = [SECRET.encode(), *(token.encode() for token in self.tokens(running))]
        for root in self.folders(running):
            for path in below(root):
                with contextlib.suppress(FileNotFoundError):  # gone meanwhile
                    if not any(each in path.read_bytes() for each in secrets):
                        continue
                    assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
                    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700, path.parent

    def test_stopping_finishes_the_batch_leaves_nothing_and_may_be_done_again(
        self, running: ClusterManager
    ) -> None:
        driver = stop(running, "clicks", graceful=True, timeout=HANGS)
        assert driver.state is DriverState.STOPPED
        assert driver.exit_reason == "stop requested"
        assert driver.ended_at is not None and driver.ended_at > driver.submitted_at
        assert "has not ended in time" not in running.logs(driver, 1000)
        assert self.nothing_left(running, "clicks", driver.epoch)
        assert newest(self.anew(running), "clicks") == driver
        with pytest.raises(AgentUnreachable, match="'clicks'"):
            running.status(driver, HANGS)
        assert stop(running, "clicks") == driver

    # One driver a checkpoint, and what else bars a start.

    def test_a_stream_of_another_name_may_not_have_the_checkpoint_of_one_that_runs(
        self, idling: ClusterManager, streams: tuple[StructuredStream, ...]
    ) -> None:
        epoch = newest(idling, "idle").epoch
        renamed = stream("renamed", checkpoint_location=f"file://{streams[1].checkpoint_location}/")
        with pytest.raises(AlreadyRunning, match=rf"that of 'idle': its driver {epoch} is running"):
            submit(self.anew(idling), renamed)
        assert idling.find("renamed") is None
        assert newest(idling, "idle").state is DriverState.RUNNING

    def test_a_driver_leaves_its_mark_in_its_checkpoint(
        self, idling: ClusterManager, streams: tuple[StructuredStream, ...]
    ) -> None:
        assert streams[1].checkpoint_location is not None
        mark = Path(streams[1].checkpoint_location) / FILE
        epoch = newest(idling, "idle").epoch
        told = json.loads(mark.read_text())
        assert (told["stream"], told["epoch"], told["ended"]) == ("idle", epoch, False)

    def test_a_durable_hold_bars_starts_until_it_is_lifted(
        self, cluster: ClusterManager, streams: tuple[StructuredStream, ...]
    ) -> None:
        before = see_ended(cluster, "idle")
        with cluster.lease("idle", "reconfigure run 1a2b", wait=HANGS) as lease:
            cluster.hold(lease, "rewriting its state", "run reconfigure again")
        with pytest.raises(Held, match="reconfigure run 1a2b, in the middle of: rewriting its"):
            submit(self.anew(cluster), streams[1])
        after = cluster.find("idle")
        assert (after.epoch if after else 0) == (before.epoch if before else 0)
        with cluster.lease("idle", "lift_hold run 3c4d", wait=HANGS) as lease:
            cluster.lift_hold(lease)
        assert submit(cluster, streams[1]).state.alive

    def test_only_a_driver_of_which_nothing_can_be_told_is_declared_gone(
        self, idling: ClusterManager
    ) -> None:
        driver = newest(idling, "idle")
        with (
            idling.lease("idle", "test", wait=HANGS) as lease,
            pytest.raises(ClusterError, match=r"is running .* stop it instead"),
        ):
            idling.declare_gone(driver, lease, "somebody")
        assert newest(idling, "idle").state is DriverState.RUNNING

    def test_a_restart_that_was_cut_off_is_a_failure_that_the_next_start_mends(
        self, idling: ClusterManager, streams: tuple[StructuredStream, ...]
    ) -> None:
        with idling.lease("idle", "restart run 1a2b", wait=HANGS) as lease:
            cut = idling.stop(
                newest(idling, "idle"), lease, graceful=False, timeout=HANGS, to_restart=True
            )
        assert cut.state is DriverState.FAILED
        assert cut.exit_reason is not None
        assert cut.exit_reason.endswith("the restart that stopped it was not completed")
        assert submit(idling, streams[1], "recovery").epoch == cut.epoch + 1

    # Starts and ends that go wrong.

    def test_two_submissions_at_once_start_one_driver(
        self, cluster: ClusterManager, streams: tuple[StructuredStream, ...]
    ) -> None:
        before = see_ended(cluster, "idle")
        outcomes: list[Driver | ClusterError] = []

        def start() -> None:
            try:
                outcomes.append(submit(self.anew(cluster), streams[1]))
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
        assert newest(cluster, "idle").epoch == (before.epoch if before else 0) + 1

    def test_a_program_without_a_query_runs_and_reports_none(self, idling: ClusterManager) -> None:
        seen = wait_running(idling, "idle")
        assert seen.queries == () and seen.batches == ()

    def test_a_killed_driver_has_failed_and_can_be_started_again(
        self, idling: ClusterManager, streams: tuple[StructuredStream, ...]
    ) -> None:
        old, before = newest(idling, "idle"), idling.history("idle")
        with idling.lease("idle", "rescale run 1a2b", wait=HANGS) as lease:
            idling.scale(old, 2, HANGS, lease)
            limits = {"web": {"maxRecordsPerTrigger": 9, "maxSpanPerTrigger": 1.5}}
            assert idling.set_rates(old, limits, HANGS, lease).rates == limits
        self.kill_driver(idling, old)
        failed = wait_for(
            "the driver to have failed",
            lambda: (d := newest(idling, "idle")).state is DriverState.FAILED and d,
        )
        assert failed and failed.exit_reason == "killed by signal 9"
        driver = submit(idling, streams[1], "recovery")
        assert driver.epoch == old.epoch + 1
        assert self.nothing_left(idling, "idle", old.epoch)
        history = idling.history("idle")
        assert list(history[:-1]) == list(before)
        assert (history[-1].epoch, history[-1].cause) == (driver.epoch, "recovery")
        # It begins with what was last asked for, not with the minimum.
        seen = wait_running(idling, "idle", executors=2)
        assert (seen.requested, seen.rates) == (2, limits)
        gone = f"at epoch {driver.epoch}; the driver of epoch {old.epoch} is gone"
        with pytest.raises(StaleEpoch, match=gone):
            idling.scale(old, 2)
        with pytest.raises((AgentUnreachable, AgentRefused)):
            idling.status(old)

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

    # What the tests of secrets need to know.

    @abstractmethod
    def tokens(self, cluster: Any) -> list[str]:
        """The agents' tokens."""

    @abstractmethod
    def folders(self, cluster: Any) -> list[Path]:
        """Folders in which a secret could lie."""
