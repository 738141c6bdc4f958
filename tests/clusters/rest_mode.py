"""A real Standalone cluster whose workers run the drivers, and a cluster manager on it."""

import os
import sys
import venv
from pathlib import Path
from typing import Any

import psutil

from dagster_sparkscale.clusters.base import Driver
from dagster_sparkscale.clusters.standalone.rest_cluster import StandaloneRestCluster
from dagster_sparkscale.driver import shipped
from dev.runs import MARK
from dev.standalone import Standalone
from tests.short_lives import EXECUTORS

HANDED_ON = (MARK, "JDK_JAVA_OPTIONS", "PYTHONPATH")


def environment() -> dict[str, str]:
    """Of the daemons, and so of drivers and executors, that makes them start fast and end."""
    return {name: os.environ[name] for name in HANDED_ON if name in os.environ}


def bare_python(folder: Path) -> str:
    """A Python that has nothing installed, pyspark neither."""
    venv.create(folder, with_pip=False)
    return str(folder / "bin/python3")


def on(
    standalone: Standalone, state: Path, python: str = sys.executable, **fields: Any
) -> StandaloneRestCluster:
    given: dict[str, Any] = {
        "master": standalone.master_url,
        "rest_urls": standalone.rest_urls,
        "web_urls": standalone.web_urls,
        "state_dir": str(state),
        "agent_bind": "127.0.0.1",
        "python": python,
        "spark_conf": EXECUTORS,
        **fields,
    }
    return StandaloneRestCluster(**given)


def pid_of(standalone: Standalone, cluster: StandaloneRestCluster, driver: Driver) -> int:
    """Of a driver's Python process, as it has told itself."""
    record = cluster.store().read(driver.stream)
    assert record is not None
    id = cluster.driver_of(driver.stream, record)._id(standalone.overview() or {})
    told = shipped.last_report((standalone.folder / "work" / str(id) / "stdout").read_text())
    assert told is not None
    return int(told[shipped.AGENT]["pid"])


def nothing_left(standalone: Standalone, name: str, epoch: int) -> bool:
    """Whether no process of that start of the stream is left: JVM and Python carry its mark."""
    mark = f"{name}/{epoch}/"
    return not any(
        part.startswith(mark) for process in standalone.left() for part in command_line(process)
    )


def command_line(process: psutil.Process) -> list[str]:
    """Empty where it has just ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []
