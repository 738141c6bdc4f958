"""How much sooner executors come where there is an archive of class data.

On one local cluster two streams run, the one with the archive and the other without. In turn each
is set to a target of three executors, and back to one. Counted are the seconds from the request at
the agent until the executors have registered, as the agent reports it.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.figures import Figure, paired_ratio
from dagster_sparkscale import LocalCluster, RatioPolicy, StructuredStream
from dagster_sparkscale.clusters.agents.change import SetExecutors
from dagster_sparkscale.clusters.base import Driver
from dagster_sparkscale.clusters.class_data import archives
from dagster_sparkscale.clusters.java import java_home, spark_home
from dev.runs import MARK

PROGRAM = Path(__file__).parent / "programs" / "rate.py"
REPETITIONS = 5
TARGET = 3
_DEADLINE = 300.0
# What class data sharing is switched off by for one stream: the user's own word wins.
_WITHOUT = {f"spark.{role}.defaultJavaOptions": "-Xshare:auto" for role in ("driver", "executor")}


def measure() -> list[Figure]:
    archive = archives.make(java_home(), spark_home(), archives.user_folder())
    with tempfile.TemporaryDirectory(prefix="sparkscale-bench-") as name:
        cluster = LocalCluster(
            state_dir=name,
            workers=1,
            cores_per_worker=2 * TARGET,
            memory_per_worker="8g",
            pass_environment=[MARK],
        )
        try:
            with_it = _running(cluster, "with_archive", {})
            without = _running(cluster, "without", _WITHOUT)
            ours, theirs = [], []
            # The first of each is a warm-up: jars and archive come into the page cache.
            for repetition in range(REPETITIONS + 1):
                pair = _seconds(cluster, with_it), _seconds(cluster, without)
                if repetition:
                    ours.append(pair[0])
                    theirs.append(pair[1])
        finally:
            cluster.shutdown(force=True)
    detail = {
        "ours": f"seconds from a target of {TARGET} (1 before) to {TARGET} registered, with it",
        "theirs": "the same without it",
        "archive_bytes": archive.stat().st_size,
    }
    return [paired_ratio("executor_start", ours, theirs, goal=0.7, detail=detail)]


def _running(cluster: LocalCluster, name: str, settings: dict[str, str]) -> Driver:
    stream = StructuredStream(
        name=name,
        program=str(PROGRAM),
        batch_interval=10,
        executor_memory="512m",
        spark_conf=settings,
        autoscale=RatioPolicy(max_executors=TARGET),
    )
    with cluster.lease(name, "benchmark") as lease:
        driver = cluster.submit(stream, lease)
    _wait(lambda: _registered(cluster, driver) == 1)
    return driver


def _seconds(cluster: LocalCluster, driver: Driver) -> float:
    began = time.monotonic()
    cluster.change(driver, SetExecutors(TARGET))
    _wait(lambda: _registered(cluster, driver) == TARGET)
    took = time.monotonic() - began
    cluster.change(driver, SetExecutors(1))
    _wait(lambda: _registered(cluster, driver) == 1)
    return took


def _registered(cluster: LocalCluster, driver: Driver) -> int | None:
    if driver.agent_url is None:
        found = cluster.find(driver.stream)
        if found is None or found.agent_url is None:
            return None
        driver = found
    return cluster.status(driver, window=0).registered


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _DEADLINE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the benchmark waited too long")
        time.sleep(0.05)
