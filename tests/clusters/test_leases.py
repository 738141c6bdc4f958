"""The lease: one holder, whoever and wherever; free when its holder is dead, or silent too long."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dagster_sparkscale.clusters.errors import ClusterError, LeaseLost, OperationInProgress
from dagster_sparkscale.clusters.host.folder_store import FolderStore
from dagster_sparkscale.clusters.records import leases
from dagster_sparkscale.clusters.records.leases import LEASE_SECONDS, Lease, hold
from dagster_sparkscale.clusters.records.store import Holding, Record
from tests.waiting import HANGS, patience, wait_for

_HOLD = """
import sys, pathlib
from dagster_sparkscale.clusters.records import leases
from dagster_sparkscale.clusters.host.folder_store import FolderStore
leases.LEASE_SECONDS, leases.RENEW_EVERY = {expires}, {renews}
with leases.hold(FolderStore(pathlib.Path(sys.argv[1])), "clicks", "rescale run 1a2b", {wait}) as l:
    print("held", flush=True)
    sys.stdin.readline()
    try:
        l.write(l.record)
        print("written", flush=True)
    except leases.LeaseLost:
        print("lost", flush=True)
"""


class Time:
    """A steady clock that goes on when somebody sleeps, and by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@contextmanager
def unkept(lease: Lease) -> Iterator[None]:
    yield


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path)


def holder(
    store: FolderStore, wait: float = 0.0, expires: float = LEASE_SECONDS, renews: float = 5.0
) -> "subprocess.Popen[str]":
    code = _HOLD.format(wait=wait, expires=expires, renews=renews)
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(store.state_dir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    return process


def held(process: "subprocess.Popen[str]") -> "subprocess.Popen[str]":
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


def end(process: "subprocess.Popen[str]") -> str:
    """Let it go on to its end; what it says."""
    return process.communicate("\n")[0].strip()


def record(store: FolderStore) -> Record:
    found = store.read("clicks")
    assert found is not None
    return found


def test_two_in_one_process_conflict_and_the_holder_is_named(store: FolderStore) -> None:
    with hold(store, "clicks", "rescale run 1a2b", 0.0):
        with (
            pytest.raises(OperationInProgress) as caught,
            hold(store, "clicks", "stop run 3c4d", 0.0),
        ):
            pytest.fail("held twice")
        assert str(caught.value).startswith("rescale run 1a2b has held 'clicks' since ")
        assert f"(process {os.getpid()} on " in str(caught.value)
    with hold(store, "clicks", "stop run 3c4d", 0.0) as lease:
        assert (lease.stream, lease.holder) == ("clicks", "stop run 3c4d")


def test_a_lease_that_could_not_be_renewed_says_why_it_is_lost(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    time = Time()

    def refuses(*_: object) -> None:
        raise ClusterError("configmaps is forbidden")

    with hold(store, "clicks", "x", 0.0, keeping=unkept, clock=time.clock) as lease:
        with monkeypatch.context() as cut_off:
            cut_off.setattr(FolderStore, "swap", refuses)
            with pytest.raises(ClusterError, match=r"^configmaps is forbidden$"):
                lease.renew()
        lease.renew()
        time.now += LEASE_SECONDS
        with pytest.raises(LeaseLost, match=r"having been held up for 20 s or cut off from what"):
            lease.check()
    with hold(store, "clicks", "x", 0.0, keeping=unkept, clock=time.clock) as lease:
        monkeypatch.setattr(FolderStore, "swap", refuses)
        with pytest.raises(ClusterError):
            lease.renew()
        time.now += LEASE_SECONDS
        text = (
            r"or cut off from what is remembered \(when it last tried: configmaps is forbidden\);"
        )
        with pytest.raises(LeaseLost, match=text):
            lease.check()


def test_of_a_lost_lease_the_last_reason_is_told(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    time, swap = Time(), FolderStore.swap

    def answers_nobody(*args: Any) -> None:
        swap(*args)
        raise ClusterError("no answer in 10 s")

    def refuses(*_: object) -> None:
        raise ClusterError("configmaps is forbidden")

    with hold(store, "clicks", "x", 0.0, keeping=unkept, clock=time.clock) as lease:
        with monkeypatch.context() as patch:
            patch.setattr(FolderStore, "swap", answers_nobody)
            with pytest.raises(ClusterError):
                lease.renew()
        monkeypatch.setattr(FolderStore, "read", refuses)
        with pytest.raises(ClusterError):  # a conflict, of what was stored
            lease.renew()
        time.now += LEASE_SECONDS
        with pytest.raises(LeaseLost, match="configmaps is forbidden"):
            lease.check()


def test_each_operation_has_a_higher_number_than_those_before(store: FolderStore) -> None:
    numbers = []
    for _ in range(4):
        with hold(store, "clicks", "x", 0.0) as lease:
            numbers.append(lease.number)
    assert numbers == [1, 2, 3, 4]
    assert record(store).operations == 4


def test_another_process_holds_it_until_it_lets_go(store: FolderStore) -> None:
    process = held(holder(store))
    with (
        pytest.raises(OperationInProgress, match="rescale run 1a2b has held 'clicks' since"),
        hold(store, "clicks", "x", 0.0),
    ):
        pytest.fail("held twice")
    assert end(process) == "written"
    with hold(store, "clicks", "x", 0.0):
        pass


def test_a_killed_holder_holds_nothing(store: FolderStore) -> None:
    process = held(holder(store))
    process.kill()
    process.communicate()
    assert record(store).lease is not None  # and yet:
    with hold(store, "clicks", "x", 0.0):
        pass
    assert record(store).lease is None


@pytest.mark.clusters
def test_a_holder_that_is_frozen_holds_it_no_longer_than_it_lasts_and_learns_that(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Less than that lies between two steps of this test, as busy as the machine is.
    monkeypatch.setattr(leases, "LEASE_SECONDS", patience(6.0))
    monkeypatch.setattr(leases, "RENEW_EVERY", 0.1)
    process = held(holder(store, expires=HANGS))  # so that only the conflict can tell it
    process.send_signal(signal.SIGSTOP)
    try:
        with hold(store, "clicks", "x", HANGS) as lease:
            after = lease.write(replace(lease.record, epoch=5))
            process.send_signal(signal.SIGCONT)
            assert end(process) == "lost"
            now = lease.record  # which this one has renewed meanwhile
            assert now == replace(after, revision=now.revision, lease=now.lease)
    finally:
        process.kill()
        process.communicate()


def test_a_holder_that_lives_keeps_it_for_longer_than_it_lasts(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = held(holder(store, expires=HANGS, renews=0.05))
    time = Time()
    beats = []

    def wait(seconds: float) -> None:
        # Each look of the one that waits comes after a beat of the other's.
        before = record(store).lease
        wait_for("a beat", lambda: record(store).lease != before)
        beats.append(before)
        time.now += LEASE_SECONDS / 2

    with (
        pytest.raises(OperationInProgress),
        hold(store, "clicks", "x", 10 * LEASE_SECONDS, clock=time.clock, sleep=wait),
    ):
        pytest.fail("held twice")
    assert len(beats) > 5
    assert end(process) == "written"


def test_who_was_held_up_for_too_long_has_lost_it_even_if_nobody_else_wants_it(
    store: FolderStore,
) -> None:
    time = Time()
    with hold(store, "clicks", "x", 0.0, clock=time.clock, keeping=unkept) as lease:
        time.now += LEASE_SECONDS - 0.1
        lease.check()
        lease.renew()
        time.now += LEASE_SECONDS - 0.1
        lease.check()
        time.now += 0.1
        for use in (lease.check, lease.renew, lambda: lease.write(Record.new("x"))):
            with pytest.raises(LeaseLost, match="x has lost its lease of 'clicks'"):
                use()
        with pytest.raises(LeaseLost):
            _ = lease.record


def test_the_clock_of_the_wall_decides_nothing(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hold(store, "clicks", "x", 0.0) as lease:
        for jump in (-8 * 3600.0, 8 * 3600.0):
            now = 1e9 + jump
            monkeypatch.setattr("time.time", lambda now=now: now)
            with (
                pytest.raises(OperationInProgress),
                hold(store, "clicks", "y", 0.0),
            ):
                pytest.fail("held twice")
            lease.renew()


def test_a_lease_proves_itself_only_while_it_is_held(store: FolderStore) -> None:
    with hold(store, "clicks", "x", 0.0) as lease:
        lease.check("clicks")
        with pytest.raises(ClusterError, match="for 'clicks', not for 'orders'"):
            lease.check("orders")
    with pytest.raises(LeaseLost, match="is over: take a new one"):
        lease.check("clicks")
    with pytest.raises(LeaseLost, match="is over"):
        lease.write(Record.new("x"))


def test_what_is_written_under_it_does_not_end_it(store: FolderStore) -> None:
    with hold(store, "clicks", "x", 0.0) as lease:
        lease.write(replace(lease.record, epoch=1, lease=None))
        lease.renew()
        lease.write(replace(lease.record, epoch=2))
        assert record(store).lease is not None
    assert (record(store).epoch, record(store).lease) == (2, None)


def test_an_error_inside_frees_it(store: FolderStore) -> None:
    with pytest.raises(ZeroDivisionError), hold(store, "clicks", "x", 0.0):
        _ = 1 / 0
    with hold(store, "clicks", "y", 0.0):
        pass


@pytest.mark.timeout(30)
def test_no_patience_at_all_is_not_patience_without_end(store: FolderStore) -> None:
    with (
        hold(store, "clicks", "x", 0.0),
        pytest.raises(OperationInProgress),
        hold(store, "clicks", "y", -1.0),
    ):
        pytest.fail("held twice")


def test_a_child_of_the_holder_does_not_inherit_it(store: FolderStore) -> None:
    with hold(store, "clicks", "x", 0.0) as lease:
        pid = os.fork()
        if pid == 0:  # the child, which must do nothing else
            try:
                lease.write(lease.record)
            except LeaseLost:
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        lease.write(lease.record)


def test_a_store_that_cannot_be_written_gives_none_and_says_so(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with (
        pytest.raises(ClusterError, match="record: can't write it: No space left"),
        hold(store, "clicks", "x", 0.0),
    ):
        pytest.fail("held")


def test_what_cannot_be_given_back_hides_no_error_and_expires(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(ZeroDivisionError), hold(store, "clicks", "x", 0.0):
        monkeypatch.setattr("os.fsync", full)
        _ = 1 / 0
    monkeypatch.undo()
    time = Time()
    with hold(store, "clicks", "y", 2 * LEASE_SECONDS, clock=time.clock, sleep=time.sleep):
        assert time.now >= 100.0 + LEASE_SECONDS


def test_waiting_is_rewarded(store: FolderStore) -> None:
    first = held(holder(store))
    second = holder(store, wait=HANGS)
    try:
        assert end(first) == "written"
        held(second)
        assert end(second) == "written"
    finally:
        for process in (first, second):
            process.kill()
            process.communicate()


def test_one_that_was_lost_by_the_clock_alone_is_given_back(store: FolderStore) -> None:
    """As by a disk that takes longer for each write than a lease lasts: nobody else wanted it."""
    time = Time()
    with hold(store, "clicks", "x", 0.0, clock=time.clock, keeping=unkept) as lease:
        time.now += 2 * LEASE_SECONDS
        with pytest.raises(LeaseLost):
            lease.check()
    assert record(store).lease is None


def test_one_that_another_has_by_now_is_left_to_it(store: FolderStore) -> None:
    time = Time()
    with hold(store, "clicks", "x", 0.0, clock=time.clock, keeping=unkept) as lease:
        held = record(store)
        theirs = Holding("y", 9, 1.0)
        store.swap("clicks", replace(held, lease=theirs, revision=held.revision + 1))
        with pytest.raises(LeaseLost):
            lease.renew()
    assert record(store).lease == theirs
