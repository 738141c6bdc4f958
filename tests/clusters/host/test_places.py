"""What can be told of a driver from another container, a clone, or after a restart.

Only proof is an end: all else is unknown, and counts as running.
"""

import fcntl
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import AlreadyRunning, ClusterError
from dagster_sparkscale.clusters.host import places, process_fates, processes
from dagster_sparkscale.clusters.host.drivers import HostedDriver
from dagster_sparkscale.clusters.host.process_fates import Fate
from dagster_sparkscale.clusters.host.supervisor import birth
from tests.clusters.host.begun import begun, changed
from tests.clusters.host.started import SLEEP, Started
from tests.waiting import HANGS, wait_for

_LOOK = """
import sys
from pathlib import Path
from dagster_sparkscale.clusters.host.drivers import HostedDriver
from dagster_sparkscale.clusters.host.folder_store import FolderStore
store = FolderStore(Path(sys.argv[1]))
driver = HostedDriver(store.folder("clicks"), store.read("clicks"))
try:
    driver.make_way()
    print("free")
except Exception as error:
    print(type(error).__name__, driver.describe().state.value)
"""
_ELSEWHERE = ["unshare", "--pid", "--fork", "--mount-proc"]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    it = Started(tmp_path / "state")
    yield it
    processes.clear(it.mark)


def kill_both(started: Started) -> None:
    for name in ("supervisor_pid", "pid"):
        os.kill(started.pid(name), 9)
        wait_for(f"{name} to be gone", lambda name=name: birth(started.pid(name)) is None)  # type: ignore[misc]


def seen(started: Started, answers: bool = False) -> Fate:
    return started.fate_if_the_agent(answers)


def from_another_container(started: Started) -> str:
    state = started.folder.path.parent.parent
    looked = subprocess.run(
        [*_ELSEWHERE, sys.executable, "-c", _LOOK, str(state)],
        capture_output=True,
        text=True,
        timeout=HANGS,
    )
    assert looked.returncode == 0, looked.stderr
    return looked.stdout.strip()


def _has_namespaces() -> bool:
    try:
        return subprocess.run([*_ELSEWHERE, "true"], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not _has_namespaces(), reason="no namespaces may be made here")
class TestAnotherContainerOfThisHost:
    def test_a_driver_that_runs_is_seen_and_no_other_is_started(self, started: Started) -> None:
        started.launch(SLEEP).up()
        assert from_another_container(started) == "AlreadyRunning running"

    def test_one_whose_supervisor_was_killed_is_seen_too(self, started: Started) -> None:
        started.launch(SLEEP).up()
        os.kill(started.pid("supervisor_pid"), 9)
        assert from_another_container(started) == "AlreadyRunning running"

    def test_one_that_has_just_ended_without_a_word_may_have_left_something(
        self, started: Started
    ) -> None:
        started.launch(SLEEP).up()
        kill_both(started)
        assert from_another_container(started) == "AlreadyRunning unknown"

    def test_one_that_ended_long_ago_is_no_reason_to_wait(self, started: Started) -> None:
        started.launch(SLEEP).up()
        kill_both(started)
        long_ago = time.time() - 2 * process_fates.QUIET_SECONDS
        os.utime(started.submission.alive, (long_ago, long_ago))
        assert from_another_container(started) == "free"

    def test_one_that_was_never_launched_may_yet_be(self, started: Started) -> None:
        assert from_another_container(started) == "AlreadyRunning unknown"


class TestBeforeARestartOfTheMachine:
    @pytest.fixture
    def started(self, started: Started, monkeypatch: pytest.MonkeyPatch) -> Started:
        """A driver of this machine's last life, not heard of since, which was up an hour ago."""
        monkeypatch.setattr(places, "_machine", lambda: "m")
        monkeypatch.setattr(places, "up_since", lambda: time.time() - 3600.0)
        before = replace(started.record.submitter, machine="m", boot="before")
        first = replace(started.record.history[0], at=time.time() - 7200.0)
        started.record = replace(started.record, submitter=before, history=(first,))
        return started

    def touched(self, started: Started, ago: float) -> None:
        started.submission.alive.touch()
        os.utime(started.submission.alive, (time.time() - ago,) * 2)

    def test_it_has_ended_with_it(self, started: Started) -> None:
        self.touched(started, 7000.0)
        fate = seen(started)
        assert (fate.state, fate.reason) == (DriverState.FAILED, "the machine was restarted")

    def test_what_was_never_launched_has_too(self, started: Started) -> None:
        assert seen(started).state is DriverState.FAILED

    def test_one_that_was_heard_of_since_runs_on_a_clone_of_this_machine(
        self, started: Started
    ) -> None:
        self.touched(started, 10.0)
        assert seen(started).state is DriverState.UNKNOWN
        assert seen(started, answers=True).state is DriverState.RUNNING

    def test_one_that_seems_to_be_heard_of_since_as_the_clock_was_ahead_before_has_ended(
        self, started: Started
    ) -> None:
        """It is not touched any more, and a clone would."""
        self.touched(started, 2 * process_fates.QUIET_SECONDS)
        assert seen(started).state is DriverState.FAILED
        self.touched(started, -3600.0)  # is silent once the clock has come by
        assert seen(started).state is DriverState.UNKNOWN

    def test_one_that_holds_the_lock_has_not_ended_though_nothing_touches_it(
        self, started: Started
    ) -> None:
        """Its supervisor may have been killed."""
        self.touched(started, 2 * process_fates.QUIET_SECONDS)
        with open(started.submission.alive) as alive:
            fcntl.flock(alive, fcntl.LOCK_EX)
            assert seen(started).state is DriverState.UNKNOWN

    def test_right_after_the_start_of_a_machine_a_clone_may_not_have_been_heard_of_yet(
        self, started: Started, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(places, "up_since", lambda: time.time() - 5.0)
        self.touched(started, 7000.0)
        assert seen(started).state is DriverState.UNKNOWN

    def test_where_it_cannot_be_told_how_long_it_is_up_nothing_is(
        self, started: Started, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(places, "up_since", lambda: None)
        assert seen(started).state is DriverState.UNKNOWN


class TestWhatCannotBeRead:
    def test_a_process_that_cannot_be_looked_at_has_not_ended(
        self, started: Started, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As where no more files can be opened."""
        started.launch(SLEEP).up()

        def too_many(path: Path) -> bytes:
            raise OSError(24, "Too many open files")

        with monkeypatch.context() as patched:
            patched.setattr(processes, "birth", lambda pid: too_many(Path()))
            assert seen(started).state is DriverState.UNKNOWN
            with pytest.raises(AlreadyRunning):
                HostedDriver(started.folder, started.record).make_way()
        assert seen(started).state is DriverState.RUNNING

    def test_birth_tells_no_such_process_from_one_that_cannot_be_read(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert birth(2**22 + 1) is None

        me, few = os.getpid(), resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, few[1]))
        try:
            with pytest.raises(OSError, match="Too many"):
                birth(me)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, few)

    def test_what_may_be_left_of_a_driver_is_not_taken_for_nothing(
        self, started: Started, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import psutil

        def too_many(self: psutil.Process) -> dict[str, str]:
            raise OSError(24, "Too many open files")

        monkeypatch.setattr(psutil.Process, "environ", too_many)
        with pytest.raises(ClusterError, match="it can't be told which processes are left"):
            processes.clear(started.mark)


class TestDeclaredGone:
    def test_what_nothing_can_be_told_of_counts_as_failed_from_then_on(
        self, tmp_path: Path
    ) -> None:
        driver = begun(tmp_path / "state")
        far = replace(driver.record.submitter, machine="x", boot="y")
        record = changed(driver, submitter=far, host="another-host")
        assert HostedDriver(driver.folder, record).describe().state is DriverState.UNKNOWN
        record = changed(driver, gone=1, gone_by="declare_gone run 1a2b")
        gone = HostedDriver(driver.folder, record).describe()
        assert (gone.state, gone.exit_reason) == (
            DriverState.FAILED,
            "declared gone by declare_gone run 1a2b",
        )
        HostedDriver(driver.folder, record).make_way()

    def test_of_the_next_driver_it_says_nothing(self, tmp_path: Path) -> None:
        driver = begun(tmp_path / "state")
        changed(driver, gone=1, gone_by="somebody")
        following = begun(tmp_path / "state")
        assert following.record.epoch == 2
        assert HostedDriver(following.folder, following.record).describe().state.alive


def test_a_holder_in_another_container_is_not_known_to_have_ended() -> None:
    mine = places.this_process()
    assert not places.has_ended(mine)
    dead = replace(mine, pid=2**22 + 1)
    assert places.has_ended(dead)
    for field in ("namespace", "boot", "machine"):
        assert not places.has_ended(replace(dead, **{field: "another"}))
    assert json.dumps(mine.__dict__)  # what is remembered of it is plain


def test_a_namespace_that_could_not_be_read_is_no_other_and_not_this(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(places, "_namespace", lambda: "")
    assert not places.has_ended(replace(places.this_process(), pid=2**22 + 1))
