"""What a change of state partitions costs, above Spark's bare call.

A stream keeps 1, 5 or 10 million keys in 4 or 8 partitions, on two executors of one core, and has
run for a minute, with a batch every 5 s. Ours: a run of `reconfigure_state`, from its request until
it has succeeded: the state is read while the query runs, the query is ended, its state read,
rewritten and read again, the query started again in the same driver, and its first batch awaited.
Peer: Spark's `repartition` on a copy of the same checkpoint, the call alone, by a new driver with
the same executors. Then the seconds between the last batch before the change and the first one
after it, while files come all the time: for a change in place, and for one beside the stream.
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import psutil

from benchmarks.figures import Figure, paired_ratio
from benchmarks.rescale_run import Launch, ended, webserver
from dagster_sparkscale import ClusterManager
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.lifecycle.reconcile import Start, reconcile
from dev.dagster_ui import AT_ONCE

SIZES = tuple(
    size
    for size in (("1m", 1_000_000, 3), ("5m", 5_000_000, 3), ("10m", 10_000_000, 3))
    if size[0] in os.environ.get("STATE_SIZES", "1m,5m,10m").split(",")
)
"""Name, keys, and pairs that are measured; `STATE_SIZES=1m` measures the first alone."""
IN_PLACE, BESIDE = "in place", "beside the stream"
WAYS = tuple(
    way for way in (IN_PLACE, BESIDE) if way in os.environ.get("STATE_WAYS", f"{IN_PLACE},{BESIDE}")
)
"""`STATE_WAYS="beside the stream"` measures the second alone."""
SETTLED = 12
"""Batches before a change: the first ones after a start take long, and beside a stream that has
nothing to spare nothing is done."""
_DEADLINE = 1800.0
BENCH = Requester("bench")


def measure() -> list[Figure]:
    figures: list[Figure] = []
    cuts: dict[str, list[float]] = {}
    for name, keys, pairs in SIZES:
        with tempfile.TemporaryDirectory(prefix="sparkscale-bench-") as place:
            folder = Path(place)
            (folder / "home").mkdir()
            (folder / "home" / "dagster.yaml").write_text(AT_ONCE)
            os.environ["SPARKSCALE_BENCH_FOLDER"] = str(folder)
            os.environ["SPARKSCALE_BENCH_KEYS"] = str(keys)
            measured = {}
            for way in WAYS:
                os.environ["SPARKSCALE_BENCH_WAY"] = way
                with webserver(folder, "benchmarks.state_location") as launch:
                    instance = dg.DagsterInstance.from_config(str(folder / "home"))
                    measured[way] = _measure(way, folder, pairs, launch, instance)
            figures += _figures(name, measured)
            if BESIDE in measured:
                cuts[name] = measured[BESIDE].cut
    if {"1m", "10m"} <= cuts.keys():
        figures.append(
            paired_ratio(
                "state_cut_growth",
                *(cuts[each][: min(map(len, cuts.values()))] for each in ("10m", "1m")),
                goal=1.5,
                detail={
                    "ours": "the cut with 10 million keys, beside the stream",
                    "theirs": "with 1 million",
                },
            )
        )
    return figures


@dataclass
class Measured:
    """What the changes of one way came to, in seconds, pair by pair."""

    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    still: list[float] = field(default_factory=list)
    """The longest time between two batches."""
    cut: list[float] = field(default_factory=list)
    """The time between two batches in which the query was ended and started again."""
    shares: list[dict[str, float]] = field(default_factory=list)
    memory: list[dict[str, int]] = field(default_factory=list)


def _measure(
    way: str, folder: Path, pairs: int, launch: Launch, instance: dg.DagsterInstance
) -> Measured:
    from benchmarks import state_location

    here = importlib.reload(state_location)  # each size has a folder of its own
    cluster = here.cluster()
    came = Measured()
    try:
        reconcile(cluster, here.KEYS, BENCH, Start(start_wait=_DEADLINE))
        _batches(folder, more_than=len(_done(folder)))
        for pair in range(pairs):
            target = (8, 4)[pair % 2]
            _stop(cluster, "keys")
            came.theirs.append(_bare(cluster, here, folder, target))
            reconcile(cluster, here.KEYS, BENCH, Start(start_wait=_DEADLINE))
            with _fed(folder), _watched(cluster, "keys") as peak:
                _batches(folder, more_than=len(_done(folder)) + SETTLED)
                config = {"stream": "keys", "partitions": target}
                run = launch(
                    "reconfigure_state", {"ops": {"reconfigure_state": {"config": config}}}
                )
                record = ended(instance, run, _DEADLINE)
                _batches(folder, more_than=len(_done(folder)) + 1)
            began, over = record.create_timestamp.timestamp(), record.end_time
            came.ours.append(over - began)
            came.still.append(_longest_pause(folder, began, over))
            driver = cluster.find("keys")
            assert driver is not None
            (report,) = cluster.status(driver, window=0).state_changes
            assert (report.outcome, report.way) == ("changed", way), report
            assert report.over_at is not None and report.seconds is not None
            came.cut.append(_pause_at(folder, report.over_at - report.seconds["starting"]))
            came.shares.append(dict(report.seconds or {}))
            came.memory.append(peak)
    finally:
        cluster.shutdown(force=True)
    return came


def _figures(name: str, measured: dict[str, Measured]) -> list[Figure]:
    figures = []
    if IN_PLACE in measured:
        figures += _in_place(name, measured[IN_PLACE])
    if BESIDE in measured:
        came = measured[BESIDE]
        theirs = "Spark's repartition, the call alone"
        figures += [
            paired_ratio(
                f"state_cut_{name}",
                came.cut,
                came.theirs,
                goal=0.35,
                detail={
                    "ours": "the time between two batches in which the query was ended and started "
                    "again, beside a stream with a batch every 5 s",
                    "theirs": theirs,
                    "seconds_of_runs": came.ours,
                    "seconds_of_steps": came.shares,
                    "peak_mb": came.memory,
                },
            ),
            paired_ratio(
                f"state_pause_{name}",
                came.still,
                came.theirs,
                goal=0.35,
                detail={
                    "ours": "the longest time between two batches while the run goes on: one may "
                    "wait for tasks of the copy that have begun",
                    "theirs": theirs,
                },
            ),
        ]
    return figures


def _in_place(name: str, came: Measured) -> list[Figure]:
    return [
        paired_ratio(
            f"state_run_{name}",
            came.ours,
            came.theirs,
            goal=1.5,
            detail={
                "ours": "run requested -> succeeded, with what is read while the stream runs",
                "theirs": "Spark's repartition, the call alone",
                "seconds_of_steps": came.shares,
                "peak_mb": came.memory,
            },
        ),
        paired_ratio(
            f"state_still_{name}",
            came.still,
            came.theirs,
            goal=1.3,
            detail={
                "ours": "last batch before the change -> first batch after it",
                "theirs": "Spark's repartition, the call alone",
            },
        ),
    ]


def _bare(cluster: ClusterManager, here: Any, folder: Path, partitions: int) -> float:
    """Seconds of Spark's own call, on a copy."""
    copy, told = folder / f"copy-{uuid.uuid4().hex}", folder / "seconds"
    shutil.copytree(folder / "data" / "checkpoint", copy, ignore=lambda *_: {"_sparkscale_state"})
    told.unlink(missing_ok=True)
    bare = here.stream("bare", "bare.py", str(copy), str(partitions), str(told))
    reconcile(cluster, bare, BENCH, Start(start_wait=0.0))
    _wait(lambda: told.exists() or _has_ended(cluster, "bare"))
    _stop(cluster, "bare")
    shutil.rmtree(copy)
    return float(told.read_text())


def _has_ended(cluster: ClusterManager, stream: str) -> bool:
    driver = cluster.find(stream)
    return driver is not None and driver.state in (DriverState.STOPPED, DriverState.FAILED)


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


def _pause_at(folder: Path, moment: float) -> float:
    """Between the last batch before a moment and the first after it."""
    times = _done(folder)
    return min(at for at in times if at > moment) - max(at for at in times if at <= moment)


def _wait(condition: Any) -> None:
    deadline = time.monotonic() + _DEADLINE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the benchmark waited too long")
        time.sleep(0.1)
