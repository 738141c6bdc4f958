"""What a change of state partitions costs, above Spark's bare call.

A stream keeps 1, 5 or 10 million keys in 4 or 8 partitions, on two executors of one core. Ours: a
run of `reconfigure_state`, from its request until it has succeeded: the driver is stopped and the
next one started, the state read twice and rewritten, and the query's first batch awaited. Peer:
Spark's `repartition` on a copy of the same checkpoint, the call alone, by a driver with the same
executors. Then the seconds between the last batch before the change and the first one after it,
while files come all the time.
"""

import contextlib
import importlib
import itertools
import os
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import psutil

from benchmarks.figures import Figure, paired_ratio
from benchmarks.rescale_run import Launch, ended, webserver
from dagster_sparkscale import ClusterManager
from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.lifecycle.reconcile import Start, reconcile
from dev.dagster_ui import AT_ONCE

SIZES = (("1m", 1_000_000, 3), ("5m", 5_000_000, 3), ("10m", 10_000_000, 2))
"""Name, keys, and pairs that are measured."""
_DEADLINE = 1800.0
BENCH = Requester("bench")


def measure() -> list[Figure]:
    figures: list[Figure] = []
    still: list[tuple[float, float]] = []
    for name, keys, pairs in SIZES:
        with tempfile.TemporaryDirectory(prefix="sparkscale-bench-") as place:
            folder = Path(place)
            (folder / "home").mkdir()
            (folder / "home" / "dagster.yaml").write_text(AT_ONCE)
            os.environ["SPARKSCALE_BENCH_FOLDER"] = str(folder)
            os.environ["SPARKSCALE_BENCH_KEYS"] = str(keys)
            with webserver(folder, "benchmarks.state_location") as launch:
                instance = dg.DagsterInstance.from_config(str(folder / "home"))
                figure, stood = _measure(name, folder, pairs, launch, instance)
                figures.append(figure)
                still += stood
    return [
        *figures,
        paired_ratio(
            "state_still",
            [ours for ours, _ in still],
            [bare for _, bare in still],
            goal=1.3,
            detail={
                "ours": "last batch before the change -> first batch after it",
                "theirs": "Spark's repartition, the call alone",
                "keys": [name for name, _, pairs in SIZES for _ in range(pairs)],
            },
        ),
    ]


def _measure(
    name: str, folder: Path, pairs: int, launch: Launch, instance: dg.DagsterInstance
) -> tuple[Figure, list[tuple[float, float]]]:
    from benchmarks import state_location

    here = importlib.reload(state_location)  # each size has a folder of its own
    cluster = here.cluster()
    ours, theirs, still, shares, memory = [], [], [], [], []
    try:
        reconcile(cluster, here.KEYS, BENCH, Start(start_wait=_DEADLINE))
        _batches(folder, more_than=0)
        for pair in range(pairs):
            target = (8, 4)[pair % 2]
            _stop(cluster, "keys")
            theirs.append(_bare(cluster, here, folder, target))
            reconcile(cluster, here.KEYS, BENCH, Start(start_wait=_DEADLINE))
            with _fed(folder), _watched(cluster, "keys") as peak:
                _batches(folder, more_than=len(_done(folder)) + 2)
                config = {"stream": "keys", "partitions": target}
                run = launch(
                    "reconfigure_state", {"ops": {"reconfigure_state": {"config": config}}}
                )
                record = ended(instance, run)
                _batches(folder, more_than=len(_done(folder)) + 1)
            began, over = record.create_timestamp.timestamp(), record.end_time
            ours.append(over - began)
            still.append((_longest_pause(folder, began, over), theirs[-1]))
            driver = cluster.find("keys")
            assert driver is not None
            (report,) = cluster.status(driver, window=0).state_changes
            assert report.outcome == "changed", report
            shares.append(dict(report.seconds or {}))
            memory.append(peak)
    finally:
        cluster.shutdown(force=True)
    figure = paired_ratio(
        f"state_run_{name}",
        ours,
        theirs,
        goal=1.5,
        detail={
            "ours": "run requested -> succeeded, with two fingerprints and a restart",
            "theirs": "Spark's repartition, the call alone",
            "seconds_of_steps": shares,
            "stood_still_seconds": [round(seconds, 2) for seconds, _ in still],
            "peak_mb": memory,
        },
    )
    return figure, still


def _bare(cluster: ClusterManager, here: Any, folder: Path, partitions: int) -> float:
    """Seconds of Spark's own call, on a copy."""
    copy, told = folder / f"copy-{uuid.uuid4().hex}", folder / "seconds"
    shutil.copytree(folder / "data" / "checkpoint", copy, ignore=lambda *_: {"_sparkscale_state"})
    told.unlink(missing_ok=True)
    bare = here.stream("bare", "bare.py", str(copy), str(partitions), str(told))
    reconcile(cluster, bare, BENCH, Start(start_wait=0.0))
    _wait(told.exists)
    _stop(cluster, "bare")
    shutil.rmtree(copy)
    return float(told.read_text())


def _stop(cluster: ClusterManager, stream: str) -> None:
    with cluster.lease(stream, "bench", wait=60.0) as lease:
        driver = cluster.find(stream)
        assert driver is not None
        cluster.stop(driver, lease)


@contextlib.contextmanager
def _fed(folder: Path) -> Iterator[None]:
    """A file of some keys twice a second."""
    over = threading.Event()

    def feed() -> None:
        while not over.wait(0.5):
            draft = folder / "draft"
            draft.write_text("".join(f"{key}\n" for key in range(100)))
            draft.rename(folder / "data" / "in" / f"{uuid.uuid4().hex}.csv")

    feeding = threading.Thread(target=feed)
    feeding.start()
    try:
        yield
    finally:
        over.set()
        feeding.join()


@contextlib.contextmanager
def _watched(cluster: ClusterManager, stream: str) -> Iterator[dict[str, int]]:
    """The most memory that a driver's JVM and an executor have, in MB (resident)."""
    over, peak = threading.Event(), {"driver": 0, "executor": 0}

    def look() -> None:
        while not over.wait(1.0):
            for process in psutil.process_iter(["cmdline", "memory_info"]):
                line = " ".join(process.info["cmdline"] or ())
                kind = (
                    "executor"
                    if "CoarseGrainedExecutorBackend" in line
                    else "driver"
                    if "SparkSubmit" in line
                    else None
                )
                if kind and process.info["memory_info"]:
                    peak[kind] = max(peak[kind], process.info["memory_info"].rss // 2**20)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield peak
    finally:
        over.set()
        looking.join()


def _done(folder: Path) -> list[float]:
    """When batches were done."""
    file = folder / "data" / "done"
    lines = file.read_text().splitlines() if file.exists() else []
    return [float(line.split()[1]) for line in lines]


def _batches(folder: Path, more_than: int) -> None:
    _wait(lambda: len(_done(folder)) > more_than)


def _longest_pause(folder: Path, began: float, over: float) -> float:
    """Between two batches, of which the later one was done after the run had begun."""
    times = _done(folder)
    pauses = itertools.pairwise(times)
    return max(after - before for before, after in pauses if began < after <= over + 5)


def _wait(condition: Any) -> None:
    deadline = time.monotonic() + _DEADLINE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the benchmark waited too long")
        time.sleep(0.1)
