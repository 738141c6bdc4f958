"""What the agent costs the driver it sits in: its share of one core.

The same program, with a batch every second, runs once plainly and once under the agent, on the
same cluster. Counted is the CPU time of the Python process and of those JVM threads that serve it
(py4j's, and those that deliver events); the difference of the two runs is the agent's. The agent
is asked for its status once in `ASKED_EVERY` seconds, as the sensor does.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from benchmarks.figures import Figure
from dagster_sparkscale import LocalCluster, RatioPolicy, StructuredStream
from dagster_sparkscale.clusters.java import java_home
from dagster_sparkscale.clusters.launch.spark_settings import properties, settings
from dev.runs import MARK

PROGRAM = Path(__file__).parent / "programs" / "rate.py"
WARM_UP = 40.0
MEASURED = 120.0
ASKED_EVERY = 60.0

# py4j's threads in the JVM have no names of their own. Linux keeps 15 characters of a name.
_SERVING = re.compile(r"^(Thread-\d+|spark-listener-)")
_STREAM = StructuredStream(
    name="rate",
    program=str(PROGRAM),
    batch_interval=1,
    executor_memory="512m",
    autoscale=RatioPolicy(max_executors=1),
)


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="sparkscale-bench-") as name:
        cluster = LocalCluster(
            state_dir=name,
            workers=1,
            cores_per_worker=1,
            memory_per_worker="1g",
            pass_environment=[MARK],
        )
        try:
            cluster.prepare()
            with _plain(cluster, Path(name)) as process:
                plain = _cpu(process, lambda: None)
            with _under_agent(cluster) as (process, ask):
                agent = _cpu(process, ask)
                kept = len(ask())
        finally:
            cluster.shutdown(force=True)
    share = {part: (agent[part] - plain[part]) / MEASURED for part in agent}
    return [
        Figure(
            name="agent_core_share",
            value=round(sum(share.values()), 5),
            unit="cores",
            goal=0.01,
            better="lower",
            detail={
                "seconds": MEASURED,
                "batch_interval_seconds": _STREAM.batch_interval,
                "cpu_seconds_with_agent": agent,
                "cpu_seconds_without": plain,
                "share_by_part": {part: round(value, 5) for part, value in share.items()},
                "batches_kept": kept,
            },
        )
    ]


@contextmanager
def _plain(cluster: LocalCluster, folder: Path) -> Iterator[psutil.Process]:
    """The program as anybody would run it."""
    file = folder / "plain.properties"
    made = settings(_STREAM, 0, cluster._master(), None, "127.0.0.1") | cluster._access()
    file.write_text(properties(made))
    env = {
        **os.environ,
        "JAVA_HOME": str(java_home()),
        "PYSPARK_SUBMIT_ARGS": f"--properties-file {file} pyspark-shell",
        "PYSPARK_PYTHON": sys.executable,
    }
    with open(folder / "plain.log", "wb") as log:
        process = subprocess.Popen(
            [sys.executable, str(PROGRAM)],
            env=env,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        yield psutil.Process(process.pid)
    finally:
        jvms = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()
        for jvm in jvms:
            jvm.kill()
        psutil.wait_procs(jvms, timeout=20)


@contextmanager
def _under_agent(
    cluster: LocalCluster,
) -> Iterator[tuple[psutil.Process, Callable[[], tuple[object, ...]]]]:
    with cluster.lease("rate", "benchmark") as lease:
        driver = cluster.submit(_STREAM, lease)
        [pid] = re.findall(r"process (\d+)", driver.where)
        yield psutil.Process(int(pid)), lambda: cluster.status(driver, window=60.0).batches
        cluster.stop(driver, lease)


def _cpu(process: psutil.Process, ask: Callable[[], object]) -> dict[str, float]:
    """CPU seconds spent in `MEASURED` seconds, after a warm-up."""
    time.sleep(WARM_UP)
    ask()
    before = _spent(process)
    end = time.monotonic() + MEASURED
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, ASKED_EVERY))
        ask()
    after = _spent(process)
    return {part: round(after[part] - before[part], 3) for part in after}


def _spent(process: psutil.Process) -> dict[str, float]:
    own = process.cpu_times()
    serving = 0.0
    for child in process.children(recursive=True):
        for thread in child.threads():
            if _SERVING.search(_thread_name(child.pid, thread.id)):
                serving += thread.user_time + thread.system_time
    return {"python": own.user + own.system, "jvm_threads_that_serve_it": serving}


def _thread_name(pid: int, thread: int) -> str:
    try:
        return Path(f"/proc/{pid}/task/{thread}/comm").read_text().strip()
    except OSError:
        return ""
