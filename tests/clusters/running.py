"""Short ways to run streams on a cluster manager, and to look at them."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from dagster_sparkscale.clusters.agents.change import SetExecutors
from dagster_sparkscale.clusters.base import ClusterManager, Driver, DriverState
from dagster_sparkscale.clusters.errors import AgentUnreachable
from dagster_sparkscale.clusters.launch.spark_settings import properties
from dagster_sparkscale.clusters.local import LocalCluster
from dagster_sparkscale.declare.streams import StructuredStream
from dagster_sparkscale.in_force.parts import pinned, remembered_settings
from dagster_sparkscale.observe.status import Status
from tests.waiting import HANGS, wait_for

EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
PROGRAMS = Path(__file__).parents[1] / "programs"
SECRET = "hunter2-never-to-be-seen"


def stream(name: str, program: str = "idle.py", **fields: Any) -> StructuredStream:
    """A small stream. Its cores are bounded: an unbounded one would take all that the cluster has
    when it starts."""
    given: dict[str, Any] = {
        "program": str(PROGRAMS / program),
        "batch_interval": "1s",
        "executor_memory": "512m",
        "driver_memory": "512m",
        "spark_conf": {"spark.cores.max": 3, "spark.hadoop.fs.s3a.secret.key": SECRET},
        "env": {"CLICKS_PASSWORD": SECRET},
        **fields,
    }
    return StructuredStream(name=name, **given)


def executors(folder: str, app: str | None) -> list[psutil.Process]:
    """The processes of an application's executors on the LocalCluster with that state folder.

    By their folder: two masters that were started in the same second have applications of one id.
    """
    work = Path(folder) / "cluster" / "work" / str(app)
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if EXECUTOR in process.cmdline() and Path(process.cwd()).parent == work:
                found.append(process)
    return found


def newest(cluster: ClusterManager, name: str) -> Driver:
    driver = cluster.find(name)
    assert driver is not None
    return driver


def status(cluster: ClusterManager, name: str) -> Status | None:
    """The stream's status now; None while its agent does not answer."""
    try:
        return cluster.status(newest(cluster, name))
    except AgentUnreachable:
        return None


def wait_running(cluster: ClusterManager, name: str, executors: int = 1) -> Status:
    """The stream's status once that many executors, no more and no fewer, have registered."""

    def look() -> Status | None:
        driver = newest(cluster, name)
        assert driver.state.alive, f"{driver}\n{cluster.logs(driver, 30)}"
        seen = status(cluster, name)
        return seen if seen and seen.phase == "running" and seen.registered == executors else None

    seen = wait_for(f"{name} with {executors} executor(s)", look, 120)
    assert seen is not None
    return seen


def stop(cluster: ClusterManager, name: str, **how: Any) -> Driver:
    with cluster.lease(name, "test", wait=HANGS) as lease:
        return cluster.stop(newest(cluster, name), lease, **how)


def submit(
    cluster: ClusterManager,
    declared: StructuredStream,
    cause: str = "manual",
    settings: Mapping[str, str] | None = None,
) -> Driver:
    with cluster.lease(declared.name, "test", wait=HANGS) as lease:
        settings = {**remembered_settings(declared, lease.record), **(settings or {})}
        return cluster.submit(declared, lease, cause, settings, pinned(declared, lease.record))


def scale(cluster: ClusterManager, name: str, target: int) -> Status:
    """Set the target of the stream's newest driver. One that is too busy to be told in time, or
    has not heard of a new master yet, is told again, as the sensor does."""

    def asked() -> Status | None:
        with contextlib.suppress(AgentUnreachable):
            return cluster.change(newest(cluster, name), SetExecutors(target), timeout=HANGS)
        return None

    seen = wait_for(f"{name} to be told", asked)
    assert seen is not None
    return seen


def submit_args(cluster: LocalCluster, folder: Path) -> str:
    """PYSPARK_SUBMIT_ARGS by which a program that is no stream is let onto the cluster."""
    path = folder / "access.properties"
    path.write_text(properties(cluster._access()))
    return f"--properties-file {path} pyspark-shell"


def see_to(cluster: ClusterManager, declared: StructuredStream, executors: int = 1) -> Status:
    """See to it that the stream runs with that many executors, whatever a test before this one
    has done to it."""
    driver = cluster.find(declared.name)
    if driver is None or not driver.state.alive:
        submit(cluster, declared)
    seen = wait_for(
        f"{declared.name} to run",
        lambda: (s := status(cluster, declared.name)) and s.phase == "running" and s,
    )
    assert seen
    if seen.requested != executors:
        scale(cluster, declared.name, executors)
    return wait_running(cluster, declared.name, executors)


def see_ended(cluster: ClusterManager, name: str) -> Driver | None:
    """The stream's newest driver, of which nothing runs any more; None if it was never started."""
    driver = cluster.find(name)
    if driver is None or driver.state is DriverState.STOPPED:
        return driver
    return stop(cluster, name, graceful=False)


def in_another_process(cluster: ClusterManager, code: str) -> subprocess.Popen[str]:
    """Run `code` in a process of its own, with `cluster` made anew from its fields."""
    kind = type(cluster)
    fields = {name: getattr(cluster, name) for name in kind.model_fields}
    head = (
        f"from {kind.__module__} import {kind.__name__}\ncluster = {kind.__name__}(**{fields!r})\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", head + code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
