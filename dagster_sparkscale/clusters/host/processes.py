"""Drivers as processes of this host: starts them detached, finds them, makes an end of them.

A driver is recognised by pid and birth time, and everything it has started by an environment
variable that children inherit, SPARKSCALE_SUBMISSION=<stream>:<epoch>:<id of the stream's record>.

What must not change: no process is ever signalled by its name or by a bare pid. What has become of
a driver is told by `fates`.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.host import supervisor
from dagster_sparkscale.clusters.host.folders import SubmissionFolder, read_json
from dagster_sparkscale.clusters.host.supervisor import birth, write_json
from dagster_sparkscale.clusters.pauses import wait_until

if TYPE_CHECKING:
    import psutil

MARKER = "SPARKSCALE_SUBMISSION"
TERM_SECONDS = 10.0
"""Between SIGTERM and SIGKILL."""
SUPERVISOR_SECONDS = 25.0
"""How long a supervisor may take to see that nothing is left: it waits and kills for twice ten."""

_OURS = "java", "python", "pypy"
"""How the names of the programs begin that drivers are."""
_IN_THE_WAY = "end them before a new start"

# What this process has started: kept so that they are reaped when they end.
_launched: list[subprocess.Popen[bytes]] = []


def marker(stream: str, epoch: int, record_id: str) -> str:
    """What the processes of a submission carry."""
    return f"{stream}:{epoch}:{record_id}"


def start_detached(
    command: Sequence[str],
    env: Mapping[str, str],
    output: IO[bytes] | int = subprocess.DEVNULL,
    folder: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process that is no child of a terminal or of Dagster: it outlives both.

    Raises:
        OSError: it could not be started.
    """
    _launched[:] = [process for process in _launched if process.poll() is None]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env=dict(env),
        cwd=folder,
        start_new_session=True,
    )
    _launched.append(process)
    return process


def launch(folder: SubmissionFolder, command: Sequence[str], env: Mapping[str, str]) -> None:
    """Start the supervisor with the driver's command, in a session of its own.

    Raises:
        ClusterError: it could not be started; nothing of it runs.
    """
    # As an isolated script: a stream's environment (PYTHONHOME, PYTHONPATH) may break its driver,
    # but then the supervisor must be there to tell.
    supervise = [command[0], "-I", supervisor.__file__, "--dir", str(folder.path)]
    process: subprocess.Popen[bytes] | None = None
    try:
        with open(folder.path / "supervisor.err", "wb", opener=_private) as errors:
            process = start_detached([*supervise, "--", *command], env, errors)
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


def lives(note: Mapping[str, Any], pid_name: str = "pid", birth_name: str = "birth") -> bool:
    """Whether the process that `note` names by pid and birth time runs.

    Raises:
        OSError: it can't be told.
    """
    pid, born = note.get(pid_name), note.get(birth_name)
    return isinstance(pid, int) and pid > 0 and born is not None and birth(pid) == born


def marked(mark: str) -> "list[psutil.Process]":
    """The live processes that carry `mark`, whose empty parts stand for anything."""
    wanted = mark.split(":")

    def matches(value: str) -> bool:
        parts = value.split(":")
        return len(parts) == len(wanted) and all(
            not part or part == other for part, other in zip(wanted, parts, strict=True)
        )

    return carrying(MARKER, matches)


def carrying(variable: str, matches: Callable[[str], bool]) -> "list[psutil.Process]":
    """The live processes of this user that have `variable` with a matching value.

    Raises:
        OSError: a process can't be looked at, as where no more files can be opened, or one of this
            user hides from it that may be one of ours.
    """
    import psutil

    found = []
    for process in psutil.process_iter():
        try:
            value = process.environ().get(variable)
            if value and matches(value) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.NoSuchProcess:
            continue  # gone meanwhile
        except psutil.AccessDenied:
            _refuse_if_ours(process)  # else another user's, or one such as ssh-agent
    return found


def _refuse_if_ours(process: "psutil.Process") -> None:
    """Refuse to take a process for gone that hides from this user and may be a driver.

    Raises:
        OSError: the process is a JVM or a Python of this user, as all drivers are.
    """
    import psutil

    try:
        if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
            return
        if process.uids().real == os.getuid() and process.name().startswith(_OURS):
            raise PermissionError(
                f"process {process.pid} ({process.name()}) runs as this user and hides from it, as "
                "one with file capabilities does: whether it is a driver can't be told"
            )
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return


def clear(mark: str, spare: int | None = None) -> int:
    """Kill every process that carries `mark`, except the one with pid `spare`; returns how many.

    Raises:
        ClusterError: one is still there after ten seconds.
    """

    def left() -> "list[psutil.Process]":
        return [process for process in marked(mark) if process.pid != spare]

    return kill_all(left, _IN_THE_WAY)


def clear_up_to(stream: str, epoch: int, record_id: str) -> None:
    """Kill every process of the stream's submissions up to that epoch. Later ones are spared: the
    caller may have been held up and not know them.

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
        ClusterError: a process can't be examined.
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


def kill_all(
    find: "Callable[[], list[psutil.Process]]", advice: str, seconds: float | None = None
) -> int:
    """Kill what is found until nothing is found any more; returns how many.

    Raises:
        ClusterError: one is still there after `seconds`, ten by default; ends with `advice`.
    """
    killed: set[int] = set()
    deadline = time.monotonic() + (TERM_SECONDS if seconds is None else seconds)

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
