"""Benchmarks and the demo leave nothing running where they are killed: no driver, no daemon."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.clusters.running import EXECUTOR
from tests.e2e.demo_run import DemoRun
from tests.waiting import HANGS, wait_for

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.spark, pytest.mark.clusters]


def at_home_in(folder: Path) -> list[str]:
    """The commands of the processes that name a folder or run in it, whatever their environment
    has."""
    lines = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            line = " ".join(process.cmdline())
            here = str(folder) in line or Path(process.cwd()).is_relative_to(folder)
            if here and process.status() != psutil.STATUS_ZOMBIE:
                lines.append(line)
    return lines


def nothing_left(folder: Path) -> None:
    wait_for(
        "the end of all",
        lambda: not at_home_in(folder),
        about=lambda: "\n".join(at_home_in(folder)),
    )


def test_a_benchmark_that_is_killed_leaves_neither_driver_nor_dagster(tmp_path: Path) -> None:
    log = tmp_path / "output"
    with open(log, "wb") as output:
        benchmark = subprocess.Popen(
            [sys.executable, "-m", "benchmarks", "rescale_run"],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(tmp_path)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )

    def an_executor() -> bool:
        assert benchmark.poll() is None, log.read_text()
        return any(EXECUTOR in line for line in at_home_in(tmp_path))

    try:
        wait_for("an executor of its stream", an_executor, 300, about=log.read_text)
        assert any("supervisor" in line for line in at_home_in(tmp_path))
    finally:
        benchmark.kill()
        benchmark.wait(HANGS)
    nothing_left(tmp_path)


def test_a_demo_that_is_killed_leaves_no_process(tmp_path: Path) -> None:
    demo = DemoRun(tmp_path)
    try:
        wait_for("its first processes", lambda: demo.running() >= 4, about=demo.output)
        assert demo.process.poll() is None, demo.output()
    finally:
        demo.process.kill()
        demo.process.wait(HANGS)
    nothing_left(tmp_path)
    assert demo.running() == 0
