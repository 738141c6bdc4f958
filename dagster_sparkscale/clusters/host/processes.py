"""Drivers as processes of this host: starts them detached, tells their state, makes an end of them.

A driver is recognised by pid and birth time, and everything it has started by an environment
variable that children inherit, SPARKSCALE_SUBMISSION=<stream>:<epoch>:<id of the stream's record>.

What must not change: no process is ever signalled by its name or by a bare pid; a driver is taken
for ended only when nothing of it can be running any more.
"""

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.host import folders, places, supervisor
from dagster_sparkscale.clusters.host.folders import SubmissionFolder, read_json
from dagster_sparkscale.clusters.host.supervisor import birth, write_json
from dagster_sparkscale.clusters.store import Record

if TYPE_CHECKING:
    import psutil

MARKER = "SPARKSCALE_SUBMISSION"
TERM_SECONDS = 10.0
"""Between SIGTERM and SIGKILL."""
QUIET_SECONDS = 60.0
"""A supervisor that has not touched its file for so long does not run under this kernel."""
SUPERVISOR_SECONDS = 25.0
"""How long a supervisor may take to see that nothing is left: it waits and kills for twice ten."""

_NO_TRACE = (
    "ended without a trace (killed together with its supervisor, or the machine was restarted)"
)

_IN_THE_WAY = "end them before a new start"

# Supervisors this process has started: kept so that they are reaped when they end.
_launched: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True)
class Fate:
    """What has become of a submission, whatever was wished for it."""

    state: DriverState
    """STARTING, RUNNING, FAILED or UNKNOWN."""
    pid: int | None = None
    ended_at: float | None = None
    """When it was seen to end, seconds since the epoch."""
    reason: str | None = None
    heard_of_at: float | None = None
    """Of one whose end nobody has seen: when its supervisor last showed that it lived."""


def marker(stream: str, epoch: int, record_id: str) -> str:
    """What the processes of a submission carry."""
    return f"{stream}:{epoch}:{record_id}"


def launch(folder: SubmissionFolder, command: Sequence[str], env: Mapping[str, str]) -> None:
    """Start the supervisor with the driver's command, in a session of its own.

    Raises:
        ClusterError: it could not be started; nothing of it runs.
    """
    _launched[:] = [process for process in _launched if process.poll() is None]
    # As an isolated script: a stream's environment (PYTHONHOME, PYTHONPATH) may break its driver,
    # but then the supervisor must be there to tell.
    supervise = [command[0], "-I", supervisor.__file__, "--dir", str(folder.path)]
    process: subprocess.Popen[bytes] | None = None
    try:
        with open(folder.path / "supervisor.err", "wb", opener=_private) as errors:
            process = subprocess.Popen(
                [*supervise, "--", *command],
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                env=dict(env),
                # Not a child of a terminal or of Dagster: it outlives both.
                start_new_session=True,
            )
        _launched.append(process)
        write_json(folder.supervisor, {"pid": process.pid, "birth": birth(process.pid)})
    except BaseException as error:
        # A full disk, or Dagster terminating the run: a launch that is not on record must not run.
        # First by its pid: a process does not show its mark for a moment after it has begun.
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        clear(env[MARKER])
        reason = f"could not be launched: {error}"
        with contextlib.suppress(OSError):
            note = {"code": None, "signal": None, "at": time.time(), "reason": reason}
            write_json(folder.exit, note)
        if isinstance(error, OSError):
            raise ClusterError(f"the driver {reason}") from error
        raise


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def observe(record: Record, folder: SubmissionFolder, running_there: Callable[[], bool]) -> Fate:
    """What has become of the newest submission. What can't be told is UNKNOWN, never an end.

    `running_there` is asked only about a driver that was started where nothing can be seen of it
    from here.

    Raises:
        ClusterError: a file of the submission can't be read; names it.
    """
    ended = _ended(folder)
    if ended:
        return ended
    try:
        if record.gone == record.epoch:
            fate = Fate(DriverState.FAILED, reason=f"declared gone by {record.gone_by}")
        else:
            fate = _seen(record, folder)
        if not fate.state.alive:
            fate = replace(fate, heard_of_at=_touched_at(folder))
    except OSError as error:
        fate = Fate(DriverState.UNKNOWN, reason=f"it can't be told from here: {error}")
    if fate.state is not DriverState.UNKNOWN:
        # It may have left word between the two looks.
        return fate if fate.state.alive else _ended(folder) or fate
    return Fate(DriverState.RUNNING) if running_there() else fate


def _seen(record: Record, folder: SubmissionFolder) -> Fate:
    """What can be seen from here of a submission that has left no word."""
    started_by = record.submitter
    if places.same_kernel(started_by):
        if places.same_namespace(started_by):
            return _seen_by_pids(record, folder)
        locked = folders.is_locked(folder.alive)
        if locked:
            return Fate(_announced(folder), _pid_of(folder))
        quiet_for = _quiet_for(folder)
        # A driver's JVM may outlive it by a moment, and can't be seen from this container.
        if locked is False and quiet_for is not None and quiet_for > QUIET_SECONDS:
            return Fate(DriverState.FAILED, _pid_of(folder), reason=_NO_TRACE)
        return Fate(DriverState.UNKNOWN, reason="it was started in another container")
    if places.was_before_this_boot(started_by):
        return _before_this_boot(record, folder)
    return _far_away(record)


def _far_away(record: Record) -> Fate:
    return Fate(DriverState.UNKNOWN, reason=f"it was started on host {record.host}")


def _before_this_boot(record: Record, folder: SubmissionFolder) -> Fate:
    """Of a driver that was started on this machine before its restart; or on a machine that has
    the same identity, being a clone, and then its supervisor still touches its file."""
    up_since = places.up_since()
    heard_of = max(record.submitted_at, _touched_at(folder) or 0.0)
    if up_since is None or time.time() - up_since < QUIET_SECONDS:
        return Fate(DriverState.UNKNOWN, reason="this machine was started a moment ago")
    # Or the clock was ahead before the restart, and was set right since.
    if heard_of >= up_since and not _is_silent(folder):
        return Fate(
            DriverState.UNKNOWN,
            reason="by the clock it was heard of after this machine was started",
        )
    return Fate(DriverState.FAILED, reason="the machine was restarted")


def _is_silent(folder: SubmissionFolder) -> bool:
    """Whether it is known that nobody touches its file any more. By the clock of the file system:
    that of another machine may be another than ours.

    Raises:
        OSError: it can't be told.
    """
    touched = _touched_at(folder)
    if touched is None or folders.is_locked(folder.alive) is not False:
        return False
    with tempfile.TemporaryFile(dir=folder.path) as made_now:
        return os.fstat(made_now.fileno()).st_mtime - touched > QUIET_SECONDS


def _touched_at(folder: SubmissionFolder) -> float | None:
    try:
        return folder.alive.stat().st_mtime
    except FileNotFoundError:
        return None


def _quiet_for(folder: SubmissionFolder) -> float | None:
    """Seconds since the supervisor has shown that it lives; None if it never has."""
    touched = _touched_at(folder)
    return None if touched is None else max(0.0, time.time() - touched)


def _announced(folder: SubmissionFolder) -> DriverState:
    return DriverState.RUNNING if folder.agent.exists() else DriverState.STARTING


def _pid_of(folder: SubmissionFolder) -> int | None:
    driver = read_json(folder.driver)
    return None if driver is None else _pid(driver, "pid", folder.driver)


def _seen_by_pids(record: Record, folder: SubmissionFolder) -> Fate:
    """Where the process ids in the notes mean what they meant when they were written."""
    driver = read_json(folder.driver)
    watcher = read_json(folder.supervisor)
    if driver is not None:
        pid = _pid(driver, "pid", folder.driver)
        # A supervisor that outlives its driver is still clearing away what the driver left.
        if _is_there(driver, record) or _is_there(driver, record, "supervisor_"):
            return Fate(_announced(folder), pid)
        return Fate(DriverState.FAILED, pid, reason=_NO_TRACE)
    if watcher is not None:
        # A full disk may have kept it from noting whom it has started.
        if lives(watcher) or _anything_runs(record):
            return Fate(_announced(folder))
        if folder.driver.exists():
            return _seen_by_pids(record, folder)
        reason = f"its supervisor ended before it had started the driver{_complaints(folder)}"
        return Fate(DriverState.FAILED, reason=reason)
    by = record.submitter
    submitter_lives = birth(by.pid) == by.birth is not None
    if submitter_lives or _anything_runs(record):
        return Fate(DriverState.STARTING)
    return Fate(DriverState.FAILED, reason="was never launched: the process submitting it died")


def _anything_runs(record: Record) -> bool:
    """Whether a process here carries the mark of the newest submission."""
    return bool(marked(marker("", record.epoch, record.id)))


def _is_there(note: Mapping[str, Any], record: Record, which: str = "") -> bool:
    """Whether the process runs that `note` of the driver names. One whose birth could not be told
    when it was written is known by its mark."""
    if note.get(f"{which}birth", "") is not None:
        return lives(note, f"{which}pid", f"{which}birth")
    mark = marker("", record.epoch, record.id)
    return any(process.pid == note.get(f"{which}pid") for process in marked(mark))


def _ended(folder: SubmissionFolder) -> Fate | None:
    note = read_json(folder.exit)
    if note is None:
        return None
    code, number, at = note.get("code"), note.get("signal"), note.get("at")
    if note.get("reason"):
        reason = str(note["reason"])
    elif number is not None:
        reason = f"killed by signal {number}"
    elif code == 0:
        reason = "its program returned, exit code 0"
    else:
        reason = f"exit code {code}"
    ended_at = float(at) if isinstance(at, int | float) else None
    driver = read_json(folder.driver) or {}
    return Fate(DriverState.FAILED, driver.get("pid"), ended_at, reason)


def _pid(note: Mapping[str, Any], name: str, path: Path) -> int:
    pid = note.get(name)
    if not isinstance(pid, int) or pid <= 0:
        raise ClusterError(f"{path}: {name} = {pid!r}: must be a process id")
    return pid


def lives(note: Mapping[str, Any], pid_name: str = "pid", birth_name: str = "birth") -> bool:
    """Whether the process that `note` names by pid and birth time runs.

    Raises:
        OSError: it can't be told.
    """
    pid, born = note.get(pid_name), note.get(birth_name)
    return isinstance(pid, int) and pid > 0 and born is not None and birth(pid) == born


def _complaints(folder: SubmissionFolder) -> str:
    try:
        text = (folder.path / "supervisor.err").read_text(errors="replace").strip()
    except OSError:
        return ""
    return f": {text.splitlines()[-1]}" if text else ""


def marked(mark: str) -> "list[psutil.Process]":
    """The live processes that carry `mark`, whose empty parts stand for anything."""
    wanted = mark.split(":")

    def matches(value: str) -> bool:
        given = value.split(":")
        return len(given) == len(wanted) and all(
            not part or part == other for part, other in zip(wanted, given, strict=True)
        )

    return carrying(MARKER, matches)


def carrying(variable: str, matches: Callable[[str], bool]) -> "list[psutil.Process]":
    """The live processes of this user that have `variable` with a matching value.

    Raises:
        OSError: a process can't be looked at, as where no more files can be opened.
    """
    import psutil

    found = []
    for process in psutil.process_iter():
        try:
            value = process.environ().get(variable)
            if value and matches(value) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue  # gone meanwhile; or another user's, or one that hides from its own
    return found


def clear(mark: str, spare: int | None = None) -> int:
    """Kill every process that carries `mark`, except the one with pid `spare`; returns how many.

    Raises:
        ClusterError: one is still there after ten seconds.
    """

    def left() -> "list[psutil.Process]":
        return [process for process in marked(mark) if process.pid != spare]

    return kill_all(left, _IN_THE_WAY)


def clear_up_to(stream: str, epoch: int, record_id: str) -> None:
    """Kill every process of the stream's submissions up to that epoch. None of a later one: who
    asks for it may have been held up, and know nothing of that.

    Raises:
        ClusterError: one is still there after ten seconds.
    """

    def matches(mark: str) -> bool:
        number = _epoch_in(mark, stream, record_id)
        return number is not None and number <= epoch

    kill_all(lambda: carrying(MARKER, matches), _IN_THE_WAY)


def later_than(stream: str, epoch: int, record_id: str) -> list[int]:
    """The live processes of the stream's submissions after that epoch.

    Raises:
        ClusterError: it can't be told.
    """

    def matches(mark: str) -> bool:
        number = _epoch_in(mark, stream, record_id)
        return number is not None and number > epoch

    try:
        return [process.pid for process in carrying(MARKER, matches)]
    except OSError as error:
        raise ClusterError(f"it can't be told what runs on this host: {error}") from error


def _epoch_in(mark: str, stream: str, record_id: str) -> int | None:
    name, _, rest = mark.partition(":")
    number, _, id = rest.partition(":")
    return int(number) if (name, id) == (stream, record_id) and number.isdigit() else None


def kill_all(find: "Callable[[], list[psutil.Process]]", advice: str) -> int:
    """Kill what is found until nothing is found any more; returns how many.

    Raises:
        ClusterError: one is still there after ten seconds; ends with `advice`.
    """
    killed: set[int] = set()
    deadline = time.monotonic() + TERM_SECONDS

    def found() -> "list[psutil.Process]":
        try:
            return find()
        except OSError as error:
            raise ClusterError(
                f"it can't be told which processes are left: {error}; {advice}"
            ) from error

    while left := found():
        if time.monotonic() > deadline:
            pids = ", ".join(str(process.pid) for process in left)
            raise ClusterError(f"process(es) {pids} can't be killed: {advice}")
        for process in left:
            with contextlib.suppress(Exception):
                process.kill()  # psutil checks first that the pid is still the same process
            killed.add(process.pid)
        time.sleep(0.05)
    return len(killed)


def terminate(folder: SubmissionFolder, mark: str, still_there: Callable[[], bool]) -> None:
    """End a driver by signals: SIGTERM, after ten seconds SIGKILL. Returns when nothing of it is
    left.

    Raises:
        ClusterError: something of it can't be killed.
    """
    driver = read_json(folder.driver) or {}
    watcher = driver.get("supervisor_pid")
    if lives(driver):
        # The first asks it to end in good order, for which it has had its time; the second at once.
        for seconds in (min(1.0, TERM_SECONDS), TERM_SECONDS):
            if still_there() and lives(driver):
                with contextlib.suppress(OSError):
                    os.kill(driver["pid"], signal.SIGTERM)
                wait_until(lambda: not still_there(), seconds)
    if still_there():
        clear(mark, spare=watcher)
        # The supervisor says how it ended; it needs a moment to see that all is gone.
        wait_until(lambda: not still_there(), SUPERVISOR_SECONDS)
    clear(mark)


def wait_until(condition: Callable[[], bool], seconds: float, every: float = 0.05) -> bool:
    """Whether `condition` became true within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(every)
    return True
