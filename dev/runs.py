"""A run of tests, of benchmarks or of the demo: however it ends, nothing that it has started stays.

All that a run starts, directly or not, carries `MARK` in its environment: also what has left its
process group and outlives its parent, as drivers, masters and workers do on purpose. A watcher, a
process in a session of its own, ends all of it once the run's own process is gone, however that
ended. A run that `make` has started ends with `make`, which does not pass every signal on.
"""

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from types import FrameType

import psutil

from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.host.processes import carrying, kill_all
from dev.processes import KILL_SECONDS

MARK = "STREAMS_RUN"
"""Environment variable: the names of the runs that a process is part of, the outermost first, as
tests play the demo. Clusters are told to pass it on to what they start (`pass_environment`). Not
one of SPARK...: those are kept from workers."""
_BETWEEN = "//"
"""Between two names. No resolved path has it in it."""
_ROOT = Path(__file__).resolve().parent.parent
_TERM_SECONDS = 10.0
"""Between SIGTERM and SIGKILL."""
_EVERY = 0.5
_SAME_SECONDS = 5.0
"""Two signals within that time ask for one end: `timeout` and `make` both tell a run of it."""
_watchers: list["subprocess.Popen[bytes]"] = []


def begin(name: str | None = None) -> str:
    """Mark all that this process starts from now on, and have it ended when this process is gone.

    Args:
        name: by which `running` and `end` find this run and earlier ones of that name, too. The
            watcher of this run ends nothing but this run, also where it is late.

    Returns:
        The name of this run alone.
    """
    run = secrets.token_hex(8)
    # The watcher of a run within a run is no part of either: it ends its own run in any case.
    unmarked = {key: value for key, value in os.environ.items() if key != MARK}
    make = str(os.getppid()) if "MAKELEVEL" in os.environ else ""
    _watchers.append(
        subprocess.Popen(
            [sys.executable, "-m", "dev.runs", run, str(os.getpid()), make],
            cwd=_ROOT,
            env=unmarked,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    )
    os.environ[MARK] = mark(f"{name}{_BETWEEN}{run}" if name else run)
    return run


def mark(name: str) -> str:
    """What processes of a run within this one have as `MARK`."""
    outer = os.environ.get(MARK)
    return f"{outer}{_BETWEEN}{name}" if outer else name


def end_as_by_ctrl_c() -> None:
    """Have SIGTERM and SIGHUP end this process in good order from now on, as Ctrl-C does. A SIGHUP
    that is ignored, as under `nohup`, stays so.

    Not so a SIGINT, which a shell has what it starts in the background ignore: after a run in this
    process Dagster has SIGTERM handled as SIGINT is.
    """
    last = -_SAME_SECONDS

    def interrupt(number: int, _frame: FrameType | None) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _SAME_SECONDS:
            last = now
            raise KeyboardInterrupt(signal.Signals(number).name)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, interrupt)


def running(name: str) -> list[psutil.Process]:
    """What that run has started and runs still, also what is part of a run within it. Neither this
    process nor what is below it in its session, such as a JVM of PySpark's: that ends with it."""
    below = psutil.Process().children(recursive=True)
    ours = {os.getpid(), *(each.pid for each in below if _in_our_session(each))}
    found = carrying(MARK, lambda names: name in names.split(_BETWEEN))
    return [process for process in found if process.pid not in ours]


def _in_our_session(process: psutil.Process) -> bool:
    try:
        return os.getsid(process.pid) == os.getsid(0)
    except OSError:
        return True  # gone


def end(name: str, patience: float = 0.0) -> list[str]:
    """End what that run has started: by SIGTERM, and what stays by SIGKILL.

    Args:
        patience: seconds that what is about to end by itself is given.

    Returns:
        A line for each process that was ended.

    Raises:
        ClusterError: one can't be killed.
        OSError: it can't be told what runs.
    """
    patient_until = time.monotonic() + patience
    while (left := running(name)) and time.monotonic() < patient_until:
        psutil.wait_procs(left, timeout=0.5)
    told = lines(left)
    for process in left:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    psutil.wait_procs(left, timeout=_TERM_SECONDS)
    # What was ended may have started more, or somebody may start it again.
    kill_all(lambda: running(name), f"they belong to run {name}", KILL_SECONDS)
    return told


def lines(processes: Iterable[psutil.Process]) -> list[str]:
    """One for each of the processes that is there."""
    told = []
    for process in processes:
        with contextlib.suppress(psutil.Error):
            told.append(f"process {process.pid}: {' '.join(process.cmdline())[:300]}")
    return told


def _watch(name: str, pid: int, make: int | None) -> None:
    """Wait until the run's own process, the parent of this one, is gone, and end the rest."""
    told = False
    while os.getppid() == pid:
        if make and not told:
            with contextlib.suppress(psutil.Error):
                run = psutil.Process(pid)
                if run.ppid() != make:
                    run.terminate()
                    told = True
        time.sleep(_EVERY)
    while True:
        try:
            end(name)
            return
        except (ClusterError, OSError):  # no more files can be opened, or a disk does not answer
            time.sleep(_EVERY)


if __name__ == "__main__":
    _watch(sys.argv[1], int(sys.argv[2]), int(sys.argv[3] or 0))
