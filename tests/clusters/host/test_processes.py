"""Drivers as processes, without Spark: what is told of them, and that they are ended for good."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import AlreadyRunning, ClusterError
from dagster_sparkscale.clusters.host import processes
from dagster_sparkscale.clusters.host.drivers import HostedDriver
from dagster_sparkscale.clusters.host.folder_store import FolderStore
from dagster_sparkscale.clusters.host.process_fates import Fate
from dagster_sparkscale.clusters.host.processes import MARKER, launch, marked, marker
from dagster_sparkscale.clusters.host.supervisor import birth
from dagster_sparkscale.clusters.records import leases
from tests.clusters.host.started import SLEEP, STUBBORN, Started
from tests.waiting import HANGS, wait_for


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was asked to end, or was killed, has all the time it needs for it."""
    monkeypatch.setattr(processes, "TERM_SECONDS", HANGS)
    monkeypatch.setattr(processes, "SUPERVISOR_SECONDS", HANGS)


@pytest.fixture
def impatient(patient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGKILL soon follows the two SIGTERMs."""
    waits = []

    def soon(condition: Callable[[], bool], seconds: float) -> bool:
        waits.append(seconds)
        return wait_until(condition, 0.5 if len(waits) <= 2 else seconds)

    wait_until = processes.wait_until
    monkeypatch.setattr(processes, "wait_until", soon)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    it = Started(tmp_path / "state")
    yield it
    processes.clear(it.mark)


def test_a_driver_is_starting_until_its_agent_is_announced(started: Started) -> None:
    started.launch(SLEEP, announced=False)
    assert started.fate() == Fate(DriverState.STARTING, started.pid())
    started.submission.agent.write_text("{}")
    assert started.fate() == Fate(DriverState.RUNNING, started.pid())


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("raise SystemExit(3)", "exit code 3"),
        ("", "its program returned, exit code 0"),
        ("import os; os.kill(os.getpid(), 9)", "killed by signal 9"),
    ],
)
def test_an_end_is_told_in_words(started: Started, code: str, reason: str) -> None:
    fate = started.launch(code).ended()
    assert (fate.state, fate.reason) == (DriverState.FAILED, reason)
    assert fate.ended_at is not None and fate.ended_at >= started.record.submitted_at


def test_a_driver_outlives_its_supervisor(started: Started) -> None:
    started.launch(SLEEP).up()
    os.kill(started.pid("supervisor_pid"), signal.SIGKILL)
    wait_for("the supervisor to be gone", lambda: birth(started.pid("supervisor_pid")) is None)
    assert started.fate().state is DriverState.RUNNING


def test_killed_together_they_leave_no_trace_and_that_is_told(started: Started) -> None:
    started.launch(SLEEP)
    os.kill(started.pid("supervisor_pid"), signal.SIGKILL)
    os.kill(started.pid(), signal.SIGKILL)
    assert started.ended().reason == (
        "ended without a trace (killed together with its supervisor, or the machine was restarted)"
    )


def test_another_process_with_the_same_pid_is_not_the_driver(started: Started) -> None:
    note = {"pid": os.getpid(), "birth": "another", "supervisor_pid": os.getpid()}
    started.submission.driver.write_text(json.dumps(note))
    assert started.fate().state is DriverState.FAILED


def test_a_driver_whose_birth_could_not_be_told_is_known_by_its_mark(started: Started) -> None:
    """As where its supervisor could not open any more files: null in the note proves nothing."""
    note = {"pid": os.getpid(), "birth": None, "supervisor_pid": 1, "supervisor_birth": None}
    started.submission.driver.write_text(json.dumps(note))
    assert started.fate().state is DriverState.FAILED
    unknown = subprocess.Popen(["sleep", "600"], env={**os.environ, MARKER: started.mark})
    try:
        wait_for("its environment to show", lambda: marked(started.mark))
        assert started.fate().state is DriverState.FAILED  # not the one that the note names
        for name in ("pid", "supervisor_pid"):
            started.submission.driver.write_text(json.dumps({**note, name: unknown.pid}))
            assert started.fate().state is DriverState.STARTING
    finally:
        unknown.kill()
        unknown.wait()
    assert started.fate().state is DriverState.FAILED


def test_a_driver_that_its_supervisor_could_not_note_runs_all_the_same(started: Started) -> None:
    """As where the disk was full for a moment: also when that supervisor is killed."""
    started.launch(SLEEP).up()
    started.submission.driver.unlink()
    assert started.fate() == Fate(DriverState.RUNNING)
    watcher = json.loads(started.submission.supervisor.read_text())["pid"]
    os.kill(watcher, signal.SIGKILL)
    wait_for("the supervisor to be gone", lambda: birth(watcher) is None)
    assert started.fate() == Fate(DriverState.RUNNING)
    processes.terminate(started.submission, started.mark, started.there)
    assert started.fate().state is DriverState.FAILED


def test_while_its_submitter_lives_it_may_yet_be_launched(started: Started) -> None:
    assert started.fate() == Fate(DriverState.STARTING)


def test_a_submitter_that_died_launched_nothing(started: Started) -> None:
    died = replace(started.record.submitter, birth="before the restart")
    started.record = replace(started.record, submitter=died)
    fate = started.fate()
    assert fate.state is DriverState.FAILED
    assert fate.reason == "was never launched: the process submitting it died"


def test_a_submitter_that_died_after_it_had_launched_is_seen_through(started: Started) -> None:
    died = replace(started.record.submitter, birth="before the restart")
    started.record = replace(started.record, submitter=died)
    orphan = subprocess.Popen(["sleep", "600"], env={**os.environ, MARKER: started.mark})
    wait_for("its environment to show", lambda: marked(started.mark))
    assert started.fate().state is DriverState.STARTING
    orphan.kill()
    orphan.wait()


def test_a_launch_that_cannot_be_noted_does_not_run(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(processes, "write_json", full)
    with pytest.raises(ClusterError, match="No space left on device"):
        launch(started.submission, [sys.executable, "-c", SLEEP], {MARKER: started.mark})
    assert not marked(started.mark)


def test_a_launch_that_cannot_be_noted_is_ended_before_it_shows_whose_it_is(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment of a process can't be read for a moment after it has begun."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(processes, "write_json", full)
    monkeypatch.setattr(processes, "carrying", lambda *_: [])
    with pytest.raises(ClusterError, match="No space left on device"):
        launch(started.submission, [sys.executable, "-c", SLEEP], {MARKER: started.mark})
    monkeypatch.undo()
    assert processes._launched[-1].poll() is not None
    assert not marked(started.mark)


def test_a_supervisor_that_cannot_start_says_why(started: Started) -> None:
    command = ["/bin/sh", "-c", "unused"]  # takes the supervisor's arguments for its own
    launch(started.submission, command, {**os.environ, MARKER: started.mark})
    reason = started.ended().reason
    assert reason is not None and reason.startswith(
        "its supervisor ended before it had started the driver: "
    )


@pytest.mark.parametrize("name", ["exit.json", "driver.json", "supervisor.json"])
def test_a_broken_note_is_an_error_and_not_an_end(started: Started, name: str) -> None:
    (started.submission.path / name).write_text("{")
    with pytest.raises(ClusterError, match=rf"{name}: is not valid JSON"):
        started.fate()


# On another host.


@pytest.fixture
def elsewhere(started: Started) -> Started:
    far = replace(started.record.submitter, host="another-host", machine="another")
    started.record = replace(started.record, host="another-host", submitter=far)
    return started


@pytest.mark.parametrize(
    ("answers", "state"), [(True, DriverState.RUNNING), (False, DriverState.UNKNOWN)]
)
def test_a_driver_elsewhere_is_what_its_agent_says(
    elsewhere: Started, answers: bool, state: DriverState
) -> None:
    fate = elsewhere.fate_if_the_agent(answers)
    assert fate.state is state


def test_a_driver_elsewhere_that_left_word_has_ended(elsewhere: Started) -> None:
    elsewhere.submission.exit.write_text('{"code": 4, "signal": null, "at": 7}')
    assert elsewhere.fate() == Fate(DriverState.FAILED, None, 7.0, "exit code 4", "exit code")


def test_a_start_is_refused_until_a_person_declares_a_driver_elsewhere_gone(
    elsewhere: Started,
) -> None:
    driver = HostedDriver(elsewhere.folder, elsewhere.record)
    unknown = driver.describe()
    assert unknown.state is DriverState.UNKNOWN and unknown.state.alive
    with pytest.raises(AlreadyRunning, match="run the job declare_gone for epoch 1"):
        driver.make_way()
    HostedDriver(elsewhere.folder, replace(elsewhere.record, gone=1)).make_way()


# Making an end.


def test_a_start_that_was_held_up_ends_nothing_of_a_driver_that_came_meanwhile(
    started: Started,
) -> None:
    started.launch(SLEEP).up()
    held_up = HostedDriver(started.folder, replace(started.record, epoch=0))
    left = HostedDriver(started.folder, replace(started.record, epoch=2))
    with pytest.raises(AlreadyRunning, match="was an older copy put back"):
        held_up.make_way()
    assert started.fate().state is DriverState.RUNNING
    left.files.path.mkdir()
    left.files.exit.write_text('{"code": 1, "signal": null, "at": 7}')
    left.make_way()  # what one before its own has left is
    assert marked(started.mark) == []


def test_nothing_is_started_beside_a_driver_that_an_older_copy_does_not_know(
    started: Started,
) -> None:
    """Nor is it killed for a driver of its number that was started elsewhere meanwhile."""
    started.launch(SLEEP).up()
    there = replace(started.record.submitter, host="there", machine="x", boot="y")
    elsewhere = replace(started.record, host="there", submitter=there, gone=1)
    for older in (replace(started.record, epoch=0), elsewhere, replace(elsewhere, epoch=2, gone=2)):
        with pytest.raises(AlreadyRunning, match=r"process \d+ on this host is of a driver of 'cl"):
            HostedDriver(started.folder, older).make_way()
    assert started.fate().state is DriverState.RUNNING


def test_it_is_asked_to_end_before_it_is_killed(started: Started) -> None:
    started.launch(SLEEP).up()
    processes.terminate(started.submission, started.mark, started.there)
    assert started.fate().reason == "killed by signal 15"
    assert not marked(started.mark)


@pytest.mark.usefixtures("impatient")
def test_one_that_does_not_listen_is_killed(started: Started) -> None:
    started.launch(STUBBORN).up()
    processes.terminate(started.submission, started.mark, started.there)
    assert started.fate().reason == "killed by signal 9"
    assert not marked(started.mark)


@pytest.mark.usefixtures("impatient")
def test_of_one_that_a_stop_had_to_kill_it_is_not_known_what_was_drained(
    started: Started,
) -> None:
    started.launch(STUBBORN).up()
    store = FolderStore(started.folder.state_dir)
    with leases.hold(store, "clicks", "stop run 1", 0.0) as lease:
        ended = HostedDriver(started.folder, lease.record).end(lease, True, 0.2)
    assert ended.ending == "killed after 0.2 s; it is not known what was drained"


@pytest.mark.usefixtures("impatient")
def test_what_hides_in_a_session_of_its_own_is_found(started: Started) -> None:
    hidden = "subprocess.Popen(['sleep', '600'], start_new_session=True)"
    started.launch(f"import subprocess; {hidden}; {STUBBORN}").up()
    os.kill(started.pid("supervisor_pid"), signal.SIGKILL)
    processes.terminate(started.submission, started.mark, started.there)
    assert not marked(started.mark)
    assert not started.there()


def test_only_its_own_are_ended(started: Started) -> None:
    other = {"another folder's": marker("clicks", 1, "0" * 16), "none at all": ""}
    bystanders = [
        subprocess.Popen(["sleep", "600"], env={**os.environ, MARKER: mark})
        for mark in other.values()
    ]
    try:
        started.launch(SLEEP)
        assert processes.clear(started.mark) >= 1
        assert [each.poll() for each in bystanders] == [None, None]
    finally:
        for each in bystanders:
            each.kill()
            each.wait()


def test_a_stop_ends_nothing_of_a_driver_that_came_after_its_own(started: Started) -> None:
    """Its lease may be lost by then, and the next driver another's."""
    started.submission.exit.write_text('{"code": 0, "signal": null, "at": 7}')
    later = marker("clicks", 2, started.record.id)
    following = subprocess.Popen(["sleep", "600"], env={**os.environ, MARKER: later})
    wait_for("its environment to show", lambda: marked(later))
    store = FolderStore(started.folder.path.parent.parent)
    try:
        with leases.hold(store, "clicks", "test", 0.0) as lease:
            HostedDriver(started.folder, started.record).end(lease, graceful=True, timeout=1.0)
        assert following.poll() is None
    finally:
        following.kill()
        following.wait()


_HIDES = """
import ctypes, os, sys, time
from dagster_sparkscale.clusters.host.processes import carrying
import psutil

os.setuid(65534)
PR_SET_NAME = 15
reads, writes = os.pipe()
hidden = os.fork()  # as one with file capabilities: a change of user hides it until it executes
if not hidden:
    if sys.argv[1:]:
        ctypes.CDLL(None).prctl(PR_SET_NAME, sys.argv[1].encode())
    os.write(writes, b"up")
    time.sleep(60)
    os._exit(0)
try:
    assert os.read(reads, 2) == b"up"
    print([each.pid == hidden for each in carrying("MARK", "x".__eq__)])
except OSError as error:
    print(str(error).replace(str(hidden), "N"))
finally:
    os.kill(hidden, 9)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="it takes root to become another user")
@pytest.mark.parametrize(("name", "told"), [(None, True), ("java", True), ("ssh-agent", False)])
def test_one_of_this_user_that_hides_is_not_taken_for_gone(name: str | None, told: bool) -> None:
    code = [sys.executable, "-c", _HIDES, *([name] if name else [])]
    done = subprocess.run(code, env={**os.environ, "MARK": "x"}, capture_output=True, text=True)
    assert ("runs as this user and hides from it" in done.stdout) == told, done
