"""The lease: one holder, whoever and wherever, and free when its holder is dead."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dagster_sparkscale.clusters.errors import ClusterError, OperationInProgress
from dagster_sparkscale.clusters.host import leases
from dagster_sparkscale.clusters.store import Lease
from tests.waiting import HANGS, wait_for

_HOLD = """
import sys, pathlib
from dagster_sparkscale.clusters.host import leases
with leases.hold(pathlib.Path(sys.argv[1]), "clicks", "rescale run 1a2b", 0.0):
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


def test_two_in_one_process_conflict_and_the_holder_is_named(tmp_path: Path) -> None:
    with leases.hold(tmp_path, "clicks", "rescale run 1a2b", 0.0):
        with (
            pytest.raises(OperationInProgress) as caught,
            leases.hold(tmp_path, "clicks", "stop run 3c4d", 0.0),
        ):
            pytest.fail("held twice")
        assert str(caught.value).startswith("rescale run 1a2b has held 'clicks' since ")
    with leases.hold(tmp_path, "clicks", "stop run 3c4d", 0.0) as lease:
        assert lease == Lease("clicks", "stop run 3c4d")


def test_another_process_holds_it_until_it_lets_go(tmp_path: Path) -> None:
    process = holder(tmp_path)
    with (
        pytest.raises(OperationInProgress, match="rescale run 1a2b has held 'clicks' since"),
        leases.hold(tmp_path, "clicks", "x", 0.0),
    ):
        pytest.fail("held twice")
    assert process.stdin is not None
    process.stdin.close()
    with leases.hold(tmp_path, "clicks", "x", HANGS):
        pass
    process.wait()


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    process = holder(tmp_path)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert (tmp_path / "lease.json").exists()  # and yet:
    with leases.hold(tmp_path, "clicks", "x", 0.0):
        pass
    assert not (tmp_path / "lease.json").exists()


def test_a_broken_note_does_not_hide_that_it_is_held(tmp_path: Path) -> None:
    with leases.hold(tmp_path, "clicks", "x", 0.0):
        (tmp_path / "lease.json").write_text("{")
        with (
            pytest.raises(OperationInProgress, match="another operation holds 'clicks'"),
            leases.hold(tmp_path, "clicks", "y", 0.0),
        ):
            pytest.fail("held twice")


def test_a_lease_proves_itself_only_while_it_is_held(tmp_path: Path) -> None:
    with leases.hold(tmp_path, "clicks", "x", 0.0) as lease:
        leases.check(tmp_path, "clicks", lease)
        with pytest.raises(ClusterError, match="for 'clicks', not for 'orders'"):
            leases.check(tmp_path, "orders", lease)
        with pytest.raises(ClusterError, match="is over"):
            leases.check(tmp_path, "clicks", Lease("clicks", "x"))
    with pytest.raises(ClusterError, match="is over"):
        leases.check(tmp_path, "clicks", lease)


def test_an_error_inside_frees_it(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), leases.hold(tmp_path, "clicks", "x", 0.0):
        _ = 1 / 0
    with leases.hold(tmp_path, "clicks", "y", 0.0):
        pass


@pytest.mark.timeout(30)
def test_no_patience_at_all_is_not_patience_without_end(tmp_path: Path) -> None:
    with (
        leases.hold(tmp_path, "clicks", "x", 0.0),
        pytest.raises(OperationInProgress),
        leases.hold(tmp_path, "clicks", "y", -1.0),
    ):
        pytest.fail("held twice")


def test_a_note_that_cannot_be_written_keeps_nobody_from_the_lease(tmp_path: Path) -> None:
    (tmp_path / "lease.json").mkdir()  # in its place, as unwritable as on a full disk
    with leases.hold(tmp_path, "clicks", "x", 0.0) as lease:
        leases.check(tmp_path, "clicks", lease)
        with (
            pytest.raises(OperationInProgress, match="another operation holds 'clicks'"),
            leases.hold(tmp_path, "clicks", "y", 0.0),
        ):
            pytest.fail("held twice")
    with leases.hold(tmp_path, "clicks", "y", 0.0):
        pass


def test_a_child_of_the_holder_does_not_inherit_it(tmp_path: Path) -> None:
    with leases.hold(tmp_path, "clicks", "x", 0.0):
        child = subprocess.Popen(["sleep", "600"])
    try:
        with leases.hold(tmp_path, "clicks", "y", 0.0):
            pass
    finally:
        child.kill()
        child.wait()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_locked_says_so(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with (
        pytest.raises(ClusterError, match=r"lease\.lock: can't lock it"),
        leases.hold(tmp_path, "clicks", "x", 0.0),
    ):
        pytest.fail("held")


def test_waiting_is_rewarded(tmp_path: Path) -> None:
    process = holder(tmp_path)
    try:
        waiting = subprocess.Popen(
            [sys.executable, "-c", _HOLD.replace(", 0.0", f", {HANGS}"), str(tmp_path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert waiting.poll() is None
        process.kill()
        wait_for("the waiting process to get the lease", lambda: waiting.poll() == 0)
    finally:
        process.kill()
        process.wait()
