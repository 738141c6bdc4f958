"""A driver that was shipped to a worker: for cluster managers that start a driver's JVM first, on a
host that has nothing but Spark, and keep nothing but its output.

    Spark's JVM -> this process -> the driver

This process ends the driver when the JVM has ended, and the JVM ends when this process has. Both
write to the JVM's own log, `stderr` in the current folder. Where the agent is and how the driver
has ended stands in `stdout` there (`shipped.BEGINS`): also when the JVM, or the worker that started
it, was killed.

What must not change: it is told that the driver has ended only when nothing of it is left that can
write a checkpoint, its JVM above all; no secret is in a file that others may read.
"""

import contextlib
import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dagster_sparkscale.driver.log import say
from dagster_sparkscale.driver.main import main as drive

from . import shipped
from .begin.announce import announce

EVERY = 0.2
"""Seconds between two looks."""


def main(folder: Path, packed: bytes) -> int:
    """Run the driver, and see it end; its exit code.

    Args:
        folder: private, and for this driver alone; deleted in the end.
        packed: a start, as `shipped.pack` makes it: `files`, texts by name; `settings` of Spark,
            which show in no command line this way; `options` of the driver, in which `{folder}`
            stands for the folder.
    """
    start = shipped.unpack(packed)
    for name, text in start["files"].items():
        handle = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
    jvm, parent = os.getppid(), os.getpid()
    driver = os.fork()
    if driver == 0:
        _end_with(parent)
        _configure(folder, start["settings"])
        return drive([option.replace("{folder}", str(folder)) for option in start["options"]])
    try:
        return _watch(folder, driver, jvm)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _configure(folder: Path, settings: Mapping[str, str]) -> None:
    """Give the JVM, which runs already, the settings of the context that is to be made."""
    from pyspark import SparkContext

    SparkContext._ensure_initialized()
    system = SparkContext._jvm.java.lang.System
    made = {"spark.files": "", "spark.submit.pyFiles": "", **settings}
    for key in ("spark.files", "spark.submit.pyFiles"):  # for the executors
        made[key] = ",".join(filter(None, [made[key], str(folder / shipped.CODE)]))
    for key, value in made.items():
        system.setProperty(key, value)


def _end_with(parent: int) -> None:
    """End this process when its parent has ended, whatever its program does."""

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(EVERY)
        os._exit(1)

    threading.Thread(target=look, name="sparkscale-parent", daemon=True).start()


def _watch(folder: Path, driver: int, jvm: int) -> int:
    """Tell of the driver until it has ended; its exit code, as a shell would tell it."""
    reported: dict[str, Any] = {}
    while True:
        ended, status = os.waitpid(driver, os.WNOHANG)
        # Also where the driver has ended by then: it dies of that too, and may be quicker.
        orphaned = os.getppid() != jvm
        if orphaned and not ended:
            with contextlib.suppress(ProcessLookupError):
                os.kill(driver, signal.SIGKILL)
            ended, status = os.waitpid(driver, 0)
        code = os.waitstatus_to_exitcode(status)
        if ended:
            announce(folder / shipped.EXIT, {"at": time.time(), **_ending(code, orphaned)})
        if (found := _found(folder)) != reported:
            reported = found
            _report(reported)
        if ended:
            return code if code >= 0 else 128 - code
        time.sleep(EVERY)


def _ending(code: int, orphaned: bool) -> dict[str, Any]:
    if orphaned:
        return {"reason": "its JVM was killed, by the kernel, its worker or the master"}
    return {"code": code} if code >= 0 else {"signal": -code}


def _found(folder: Path) -> dict[str, Any]:
    """What the driver has left."""
    found = {}
    for name in shipped.FILES:
        with contextlib.suppress(FileNotFoundError, ValueError):
            found[name] = json.loads((folder / name).read_bytes())
    return found


def _report(found: Mapping[str, Any]) -> None:
    try:
        # By its name: what the JVM prints goes there through the worker, which may be gone.
        with open("stdout", "a", encoding="utf-8") as page:
            page.write(f"\n{shipped.line(found)}\n")
    except OSError as error:
        say(f"cannot tell of the driver in {Path('stdout').absolute()}: {error}")
