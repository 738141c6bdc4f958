"""Runs a Spark program of a test in its own process; ends it by kill -9, with all it started."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.waiting import HANGS, patience


@contextmanager
def running(
    program: Path,
    arguments: Sequence[str],
    log: Path,
    stdin: int = subprocess.DEVNULL,
    environ: Mapping[str, str] = os.environ,
) -> Iterator["subprocess.Popen[bytes]"]:
    """A run; killed at the end of the block, if it has not ended by itself.

    Args:
        log: what the program writes is added to it.
        environ: what Spark needs is added to it.
    """
    with open(log, "ab") as output:
        process = subprocess.Popen(
            [sys.executable, str(program), *arguments],
            env={
                **environ,
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": "127.0.0.1",
                "READ_TIMEOUT": f"{patience(2):.1f}s",  # kinesalite never answers some calls
            },
            stdin=stdin,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    started: list[psutil.Process] = []
    try:
        yield process
    finally:
        with contextlib.suppress(psutil.Error):
            started = psutil.Process(process.pid).children(recursive=True)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(HANGS)
        # Python workers are in a group of their own, and end with the JVM that they are of.
        _, alive = psutil.wait_procs(started, timeout=patience(10))
        for left in alive:
            left.kill()
