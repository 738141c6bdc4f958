"""Processes that a run of tests has started, directly or not, and has not ended.

All of them carry `MARK` in their environment: also those that have left the tests' process group
and outlive their parents, as drivers, masters and workers do on purpose.
"""

import contextlib
import os

import psutil

MARK = "TESTS_OF_RUN"
"""Environment variable that is set to a text of this run's own. Not one of SPARK...: those are kept
from masters and workers."""
_PATIENCE = 10.0
"""Seconds that what is about to end by itself is given: Python workers end after their JVM."""


def end() -> list[str]:
    """End what this run of tests has left; returns a line for each process."""
    left = _carrying(os.environ[MARK])
    _, staying = psutil.wait_procs(left, timeout=_PATIENCE)
    told = []
    for process in staying:
        with contextlib.suppress(psutil.Error):
            told.append(f"process {process.pid}: {' '.join(process.cmdline())[:300]}")
            process.kill()
    psutil.wait_procs(staying, timeout=_PATIENCE)
    return told


def _carrying(value: str) -> list[psutil.Process]:
    """Processes of that run, without this one."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            own = process.pid == os.getpid()
            if not own and process.environ().get(MARK) == value and _lives(process):
                found.append(process)
    return found


def _lives(process: psutil.Process) -> bool:
    return process.status() != psutil.STATUS_ZOMBIE
