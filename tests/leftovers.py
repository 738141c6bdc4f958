"""A plugin of pytest: ends what a run of tests has started, directly or not, and has not ended.

All such processes carry `MARK` in their environment: also those that have left the tests' process
group and outlive their parents, as drivers, masters and workers do on purpose. Where one process
runs all tests, what is below it in its session is left alone: PySpark's JVM and others end with it.
"""

import contextlib
import os
import secrets
import time
from collections.abc import Iterator

import psutil
import pytest

from tests.waiting import patience

MARK = "TESTS_OF_RUN"
"""Environment variable that is set to a text of this run's own. Clusters are told to pass
it on to what they start (`pass_environment`). Not one of SPARK...: those are kept from workers."""
_TIMES = 5
_PATIENCE = 10.0
"""Seconds that what is about to end by itself is given: Python workers end after their JVM."""


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # one of several processes, which inherits it
        os.environ[MARK] = secrets.token_hex(8)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """When all processes of tests are done, and never before: they share one mark."""
    try:
        yield
    finally:
        if not hasattr(session.config, "workerinput") and (left := end()):
            print("\nleft running by the tests, and ended now:", *left, sep="\n")
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


def end() -> list[str]:
    """End what this run of tests has left; returns a line for each process.

    Not what is below this process and in its session, such as a JVM of PySpark's: it ends with it.
    """
    patient_until = time.monotonic() + patience(_PATIENCE)
    while (left := _carrying(os.environ[MARK])) and time.monotonic() < patient_until:
        psutil.wait_procs(left, timeout=0.5)
    told = []
    # What is killed may have started more, or somebody may start it again.
    for _ in range(_TIMES):
        staying = _carrying(os.environ[MARK])
        if not staying:
            break
        for process in staying:
            with contextlib.suppress(psutil.Error):
                told.append(f"process {process.pid}: {' '.join(process.cmdline())[:300]}")
                process.kill()
        psutil.wait_procs(staying, timeout=patience(_PATIENCE))
    return told


def _carrying(value: str) -> list[psutil.Process]:
    """Processes of that run, without this one and its own."""
    found = []
    below = psutil.Process().children(recursive=True)
    ours = {os.getpid(), *(each.pid for each in below if _in_our_session(each))}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid not in ours and process.environ().get(MARK) == value and _lives(process):
                found.append(process)
    return found


def _in_our_session(process: psutil.Process) -> bool:
    try:
        return os.getsid(process.pid) == os.getsid(0)
    except OSError:
        return True  # gone


def _lives(process: psutil.Process) -> bool:
    return process.status() != psutil.STATUS_ZOMBIE
