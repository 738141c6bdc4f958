"""What of the contract holds whatever a driver is: leases, epochs, what bars a start, and what is
remembered from one driver to the next.

The cluster in memory (`tests/in_memory/cluster.py`) passes these tests too: what is tested on it is
tested on something that keeps the contract.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from dagster_sparkscale.clusters.agents.change import SetExecutors
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
from dagster_sparkscale.clusters.records.store import Conflict, Submission
from dagster_sparkscale.declare.streams import StructuredStream
from dagster_sparkscale.driver.backpressure.rates import BadRates
from dagster_sparkscale.in_force.live_limits import SetRates
from tests.clusters.running import (
    newest,
    scale,
    see_ended,
    see_to,
    stop,
    stream,
    submit,
    wait_running,
)
from tests.waiting import HANGS, wait_for


class Streams(ABC):
    """A cluster manager, and the two streams that all tests of a class share."""

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


class BaseContract(Streams):
    """What every cluster manager must do, also one that starts no process."""

    # A stream that was never started.

    def test_a_stream_never_started_is_not_found(self, cluster: ClusterManager) -> None:
        assert cluster.find("never") is None
        assert list(cluster.history("never")) == []

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

    def test_each_operation_has_a_higher_number_than_those_before(
        self, cluster: ClusterManager
    ) -> None:
        with cluster.lease("leased", "test", wait=HANGS) as first:
            pass
        with self.anew(cluster).lease("leased", "test", wait=HANGS) as second:
            assert second.number > first.number

    def test_of_two_who_have_seen_the_same_record_one_can_change_it(
        self, cluster: ClusterManager
    ) -> None:
        with cluster.lease("contested", "test", wait=HANGS) as lease:
            seen = lease.record
        newer = replace(seen, lease=None, revision=seen.revision + 2)
        self.anew(cluster).store().swap("contested", replace(newer, owner="the first"))
        with pytest.raises(Conflict):
            cluster.store().swap("contested", replace(newer, owner="the second"))
        after = cluster.store().read("contested")
        assert after is not None and after.owner == "the first"

    def test_who_has_lost_the_lease_changes_nothing(self, cluster: ClusterManager) -> None:
        with cluster.lease("lost", "rescale run 1a2b", wait=HANGS) as lease:
            taken = replace(lease.record, lease=None, revision=lease.record.revision + 1)
            self.anew(cluster).store().swap("lost", taken)
            with pytest.raises(LeaseLost, match="rescale run 1a2b has lost its lease of 'lost'"):
                lease.write(replace(taken, owner="late"))
            assert cluster.store().read("lost") == taken

    def test_the_latest_starts_are_remembered(self, cluster: ClusterManager) -> None:
        starts = tuple(Submission(n, float(n), "manual") for n in range(1, 101))
        with cluster.lease("often", "test", wait=HANGS) as lease:
            lease.write(replace(lease.record, history=starts))
        assert tuple(self.anew(cluster).history("often"))[-20:] == starts[-20:]

    # One running driver.

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
            running.change(newest(running, "clicks"), SetExecutors(-1), HANGS)

    def test_limits_of_sources_are_stated_as_a_whole(self, running: ClusterManager) -> None:
        driver = newest(running, "clicks")
        limits = {"web": {"maxRecordsPerTrigger": 9}, "*": {"maxRate": 2.5}}
        assert running.change(driver, SetRates(limits), HANGS).rates == limits
        less = {"*": {"maxRate": 7}}
        assert running.change(driver, SetRates(less), HANGS).rates == less
        with pytest.raises(BadRates, match=r"web\.maxRate: 0: must be"):
            running.change(driver, SetRates({"web": {"maxRate": 0}}), HANGS)
        assert running.change(driver, SetRates({}), HANGS).rates == {}

    def test_an_old_epoch_changes_nothing(self, running: ClusterManager) -> None:
        driver = newest(running, "clicks")
        old, newer = replace(driver, epoch=driver.epoch - 1), f"at epoch {driver.epoch};"
        with pytest.raises(StaleEpoch, match=newer):
            running.change(old, SetExecutors(2))
        with pytest.raises(StaleEpoch, match=newer):
            running.change(old, SetRates({"web": {"maxRate": 1}}))
        with running.lease("clicks", "test") as lease, pytest.raises(StaleEpoch, match=newer):
            running.stop(old, lease)
        assert newest(running, "clicks").state is DriverState.RUNNING

    def test_an_epoch_never_goes_back(self, running: ClusterManager) -> None:
        epoch = newest(running, "clicks").epoch
        with running.lease("clicks", "test", wait=HANGS) as lease:
            with pytest.raises(ClusterError, match=f"epoch {epoch - 1} would go back behind"):
                lease.write(replace(lease.record, epoch=epoch - 1))
            assert lease.record.epoch == epoch
        assert newest(self.anew(running), "clicks").epoch == epoch

    def test_the_capacity_counts_what_is_in_use(self, running: ClusterManager) -> None:
        capacity = wait_for("the capacity", running.capacity)
        assert capacity is not None
        assert capacity.workers == len(capacity.details) >= 1
        assert 0 < capacity.cores - capacity.free_cores <= capacity.cores

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

    def test_a_killed_driver_has_failed_and_can_be_started_again(
        self, idling: ClusterManager, streams: tuple[StructuredStream, ...]
    ) -> None:
        old, before = newest(idling, "idle"), idling.history("idle")
        with idling.lease("idle", "rescale run 1a2b", wait=HANGS) as lease:
            idling.change(old, SetExecutors(2), HANGS, lease)
            limits = {"web": {"maxRecordsPerTrigger": 9, "maxSpanPerTrigger": 1.5}}
            assert idling.change(old, SetRates(limits), HANGS, lease).rates == limits
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
            idling.change(old, SetExecutors(2))
        with pytest.raises((AgentUnreachable, AgentRefused)):
            idling.status(old)
