"""Watches one driver on the host it runs on: keeps its log, and notes how it ended.

    python -I supervisor.py --dir SUBMISSION_DIR -- <driver command...>

It exists because nobody else is there to do it: the Dagster run that started the driver is long
gone when the driver dies, and an exit code is told to the parent only. In SUBMISSION_DIR it writes

    alive         locked by supervisor and driver while they live, and touched every ten seconds
    driver.json   pids and birth times of driver and supervisor
    driver.log    the driver's stdout and stderr, rotated by size (driver.log.1, driver.log.2)
    exit.json     {"code": n|null, "signal": n|null, "at": t}, once nothing of the driver is left

What must not change: standard library only (it may run where there is nothing but Spark); it never
dies of a full disk or a vanished folder; it always drains the driver's output, also while the disk
hangs, because a driver whose pipe is full stands still; exit.json appears only after the last
process has gone, because a new driver may be started on the same checkpoint as soon as it is there;
a driver is started only while the stream's record says that it shall be, for whoever launched this
may have been held up until another driver was started or a stop was asked for.
"""

import argparse
import contextlib
import ctypes
import fcntl
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

_LINUX = Path("/proc/self/stat").exists()
LOG_BYTES = 20_000_000
LOG_FILES = 3
BACKLOG = 256
"""Pieces of the driver's output, of 64 KiB at most, that wait while the disk hangs."""
BACKLOG_SECONDS = 1.0
"""How long a driver waits for room among them, until the disk counts as hanging."""
BEAT_SECONDS = 10.0
"""Between two touches of the file that is locked."""
LEFTOVER_SECONDS = 10.0
"""How long what the driver leaves behind (its JVM, helpers) may take to end by itself."""


def birth(pid: int) -> str | None:
    """What tells a process from a later one with the same pid; None if no such process lives.

    A zombie counts as dead: it does nothing any more and only waits to be reaped.

    Raises:
        OSError: it can't be told, as where no more files can be opened.
    """
    if _LINUX:
        try:
            stat = bytes_of(f"/proc/{pid}/stat")
        except (FileNotFoundError, ProcessLookupError):
            return None
        # The command name is in parentheses and may hold anything, spaces and parentheses too.
        fields = stat[stat.rfind(b")") + 2 :].decode("ascii", "replace").split()
        if fields[0] in ("Z", "X"):
            return None
        return f"{boot()}:{fields[19]}"
    answer = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.split()
    return None if not answer or answer[0].startswith("Z") else " ".join(answer[1:])


def boot() -> str:
    """Identity of the running kernel; empty where there is none.

    Start times are counted from boot: across a reboot the same pid may have the same one.

    Raises:
        OSError: it can't be told, as where no more files can be opened.
    """
    global _boot
    if _boot is None:
        try:
            _boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        except FileNotFoundError:
            _boot = ""
    return _boot


_boot: str | None = None


def sync_folder(folder: Path) -> None:
    """Have the names in `folder` outlast a loss of power."""
    with contextlib.suppress(OSError):  # not every file system can
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def bytes_of(path: str | os.PathLike[str]) -> bytes:
    """What is in a small file. `Path.read_bytes` makes twice as many system calls, and after each
    a thread waits for the interpreter: a tick looks at thousands of streams, at six files of each.

    Raises:
        OSError: it can't be read.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        text = b""
        while part := os.read(handle, 65536):
            text += part
        return text
    finally:
        os.close(handle)


def numbers_in(folder: Path) -> list[int]:
    """What in `folder` is called by a number, in order. Not 0002: 2 would not find it.

    Raises:
        OSError: it can't be looked into.
    """
    names = [name for name in os.listdir(folder) if name.isascii() and name.isdigit()]
    return sorted(int(name) for name in names if name == str(int(name)))


def _birth_if_known(pid: int) -> str | None:
    with contextlib.suppress(OSError):
        return birth(pid)
    return None


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write `content` to `path` as a whole, readable by this user only, and for good: it is there
    after a power loss too, where the file system can promise that.

    Raises:
        OSError: it could not be written; what was at `path` before is still there.
    """
    passing = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        handle = os.open(passing, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(passing, path)
        sync_folder(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(passing)
        raise


class RotatingLog:
    """Appends to a file and moves it aside when it is full. Errors of the disk are swallowed: what
    cannot be written is lost, and the next write tries again."""

    def __init__(self, path: Path, max_bytes: int = LOG_BYTES, files: int = LOG_FILES) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._files = files
        self._handle: int | None = None
        self._size = 0

    def write(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            if self._handle is not None and self._size + len(data) > self._max_bytes:
                self._rotate()
            if self._handle is None:
                self._handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
                self._size = os.fstat(self._handle).st_size
            self._size += os.write(self._handle, data)

    def _rotate(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)
        for number in range(self._files - 1, 0, -1):
            older = self._path.with_name(f"{self._path.name}.{number}")
            newer = self._path.with_name(f"{self._path.name}.{number - 1}") if number > 1 else None
            with contextlib.suppress(FileNotFoundError):
                os.replace(newer or self._path, older)


def _drain(source: int, log: RotatingLog) -> None:
    """Keep what the driver says until it says no more. While the log can't be written because the
    disk hangs, what there is no room for is lost: a driver whose pipe is full stands still."""
    waiting: queue.Queue[bytes] = queue.Queue(BACKLOG)

    def write() -> None:
        while data := waiting.get():
            log.write(data)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()  # with the mask of this thread
    lost = 0
    data = b"?"
    while data:
        try:
            data = os.read(source, 65536)
        except OSError:
            data = b""
        note = f"\n[{lost} bytes lost here: the disk hung]\n".encode() if lost and data else b""
        try:
            # A disk that is only slow may slow down the driver.
            waiting.put(note + data, timeout=0.0 if lost else BACKLOG_SECONDS)
            lost = 0
        except queue.Full:
            lost += len(data)
    writer.join()


def _adopt_orphans() -> bool:
    """Become the parent of whatever processes the driver leaves behind ("child subreaper"), to know
    exactly when none is left. Returns False where the system lacks that."""
    if _LINUX:
        with contextlib.suppress(OSError, AttributeError):
            return bool(ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0)  # PR_SET_CHILD_SUBREAPER
    return False


def _children() -> list[int]:
    """Processes whose parent is this one (Linux only; empty elsewhere)."""
    found = []
    with contextlib.suppress(OSError):
        for task in os.listdir("/proc/self/task"):
            text = Path(f"/proc/self/task/{task}/children").read_text()
            found += [int(pid) for pid in text.split()]
    return found


def _clear_leftovers(group: int | None, patience: float) -> None:
    """Return when nothing of the driver is left; after `patience` seconds kill what is.

    Args:
        group: the driver's, where its orphans are not adopted: the process group must do, although
            another may have its number once the driver's is empty.
    """
    deadline = time.monotonic() + patience
    hard_deadline = deadline + patience
    while time.monotonic() < hard_deadline:
        try:
            if os.waitpid(-1, os.WNOHANG)[0]:
                continue
            orphans = True
        except ChildProcessError:
            orphans = False
        if not orphans and (group is None or not _group_lives(group)):
            return
        if time.monotonic() > deadline:
            if group is not None:
                with contextlib.suppress(OSError):
                    os.killpg(group, signal.SIGKILL)
            for pid in _children():
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _start(thread: threading.Thread) -> None:
    # It inherits the mask: a signal that it took would not wake the main thread from its wait.
    handled = {signal.SIGINT, signal.SIGHUP, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, handled)
    thread.start()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, handled)


def why_not(directory: Path) -> str | None:
    """Why the driver of this submission must not be started, in words; None: it may.

    The record is read as `folders.py` writes it: the highest revision counts.
    """
    records = directory.parent.parent / "record"
    try:
        newest = max(numbers_in(records))
        record = json.loads((records / str(newest)).read_bytes())
        epoch, desired = record["epoch"], record["desired"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"{records} can't be read: {type(error).__name__}: {error}"
    if str(epoch) != directory.name:
        return f"driver {epoch} of the stream was started meanwhile"
    if desired != "running":
        return "the stream was asked to stop meanwhile"
    if record.get("gone") == epoch:
        return "it was declared gone meanwhile"
    return None


class Life:
    """Shows that what has it lives: a locked file, and that it is touched now and then."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        deadline = time.monotonic() + 5.0
        while True:
            try:
                fcntl.flock(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:  # somebody is looking whether it is locked
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
            except OSError:  # the file system knows no locks
                break
        _start(threading.Thread(target=self._beat, name="beat", daemon=True))

    def _beat(self) -> None:
        while True:
            time.sleep(BEAT_SECONDS)
            with contextlib.suppress(OSError):
                os.utime(self._path)


def _await(driver: "subprocess.Popen[bytes]") -> int:
    """The driver's exit code (below 0: minus the signal), once it has ended.

    Meanwhile the orphans that this process has adopted are reaped as they end: a program that goes
    on leaving helpers behind would fill the process table with their zombies.
    """
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == driver.pid:
            driver.returncode = os.waitstatus_to_exitcode(status)
            return driver.returncode


def supervise(
    directory: Path, command: list[str], patience: float = LEFTOVER_SECONDS, umask: int = -1
) -> int:
    """Run `command` until it and all it has started have ended; returns its exit code.

    One function, long as it is: in which order it does things is what keeps a driver safe.

    Args:
        umask: of the driver; -1: that of this process.
    """
    log = RotatingLog(directory / "driver.log")
    adopts = _adopt_orphans()
    try:
        life = Life(directory / "alive")
    except BlockingIOError:
        # What is said of this submission is for the one that has it to say.
        print(f"{directory}: another supervisor has it", file=sys.stderr)
        return 1
    refusal = why_not(directory)
    if refusal is not None:
        reason = f"was not started: {refusal}"
        log.write(f"The driver {reason}\n".encode())
        end = {"code": None, "signal": None, "at": time.time(), "reason": reason}
        _write_end(directory / "exit.json", end)
        return 1
    driver: subprocess.Popen[bytes] | None = None

    def pass_on(number: int, _frame: FrameType | None) -> None:
        if driver is not None and driver.returncode is None:
            with contextlib.suppress(OSError):
                os.kill(driver.pid, number)

    # Handlers, not SIG_IGN: an ignored signal would stay ignored in the driver as well.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGHUP, lambda *_: None)
    signal.signal(signal.SIGTERM, pass_on)
    # Ignored by who started this, it would have the kernel forget how the driver ended.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    read_end, write_end = os.pipe()
    try:
        driver = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=write_end,
            stderr=write_end,
            process_group=0,
            # Locked as long as either lives, and whatever the driver forks.
            pass_fds=(life.handle,),
            umask=umask,
        )
    except OSError as error:
        log.write(f"The driver could not be started: {error}\n".encode())
        _write_end(directory / "exit.json", {"code": 127, "signal": None, "at": time.time()})
        return 127
    os.close(write_end)
    _write_end(
        directory / "driver.json",
        {
            "pid": driver.pid,
            "birth": _birth_if_known(driver.pid),
            "supervisor_pid": os.getpid(),
            "supervisor_birth": _birth_if_known(os.getpid()),
        },
        attempts=3,
    )
    reader = threading.Thread(target=_drain, args=(read_end, log), daemon=True)
    _start(reader)
    result = _await(driver)
    ended = time.time()
    _clear_leftovers(None if adopts else driver.pid, patience)
    reader.join(2.0)
    code, number = (None, -result) if result < 0 else (result, None)
    _write_end(directory / "exit.json", {"code": code, "signal": number, "at": ended})
    return result if result >= 0 else 128 - result


def _write_end(path: Path, content: Mapping[str, Any], attempts: int = 60) -> None:
    for _ in range(attempts):
        with contextlib.suppress(OSError):
            write_json(path, content)
            return
        time.sleep(1.0)


def main(arguments: list[str] | None = None) -> int:
    everything = sys.argv[1:] if arguments is None else arguments
    own, command = everything, []
    if "--" in everything:
        split = everything.index("--")
        own, command = everything[:split], everything[split + 1 :]
    parser = argparse.ArgumentParser(prog="supervisor", description="Run and watch one driver.")
    parser.add_argument("--dir", required=True, type=Path, help="folder of the submission")
    options = parser.parse_args(own)
    if not command:
        parser.error("the driver's command is missing; it follows a --")
    # What is written here is this user's alone. What the driver writes is not: others may have to
    # read its output, or share its checkpoint, as the umask of who submitted it has them do.
    before = os.umask(0o077)
    return supervise(options.dir, command, umask=before)


if __name__ == "__main__":
    sys.exit(main())
