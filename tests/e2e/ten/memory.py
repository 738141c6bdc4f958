"""What the processes of the ten streams and of Dagster hold in memory.

Unique set size, which is what would be free if the process ended: archives of classes and libraries
that many processes share count for none of them. Memory is compared between quarters of the hour,
for each kind of process. A process that was started late holds less than one that has run for
long, so only those are compared that have been there since the first eighth and are there at
the end: the same processes in both quarters. For there to be some of each kind, no fault kills the
drivers of `SPARED` at any time, nor a process of Dagster's after the first eighth; what else is
done to others is done to them, too.
"""

import re
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from dagster_sparkscale.clusters.host.processes import MARKER

EVERY = 15.0
SPARED = ("keys", "kafka", "receivers", "rate")
"""A stateful query, one of Kafka, a DStream with receivers, a plain query."""
COMPARED = ("driver", "driver's JVM", "supervisor", "daemon", "code server", "web server")
"""Kinds whose memory must not grow."""
GOAL, GOAL_OF_ONE, GOAL_OF_HANDLES = 1.05, 1.1, 1.25
"""Growths that may be at most: of the memory of all processes of a kind, of that of one of them,
and of open files and threads, of which there are few."""
_MB = 1_000_000


@dataclass(frozen=True)
class Sample:
    """One process at one moment."""

    at: float
    """Seconds since the measuring began."""
    kind: str
    stream: str | None
    pid: int
    born: float
    """Seconds since the epoch."""
    megabytes: float
    threads: int
    files: int
    """Descriptors that it has open."""


@dataclass
class Kind:
    """How the memory of one kind has gone."""

    growth: float
    """The mean of the last quarter / that of the second one."""
    processes: int
    second_mb: float
    last_mb: float
    worst: float
    """The growth of the process that has grown most."""
    files: float
    """The growth of open descriptors."""
    threads: float


class Memory(threading.Thread):
    """Takes samples until it is ended.

    Args:
        dagster: the pids of Dagster's processes by kind, asked each time.
        folder: of the whole play; what has it in its environment or its command is of it.
    """

    def __init__(self, dagster: Callable[[], Mapping[str, int]], folder: Path) -> None:
        super().__init__(name="memory", daemon=True)
        self._dagster, self._folder = dagster, str(folder)
        self._over = threading.Event()
        self.begun = time.time()
        self.samples: list[Sample] = []
        self._kinds: dict[psutil.Process, tuple[str, str | None]] = {}

    def run(self) -> None:
        while not self._over.is_set():
            at = time.time() - self.begun
            self._sample(at)
            self._over.wait(max(0.0, EVERY - (time.time() - self.begun - at)))

    def end(self) -> None:
        self._over.set()
        self.join()

    def _sample(self, at: float) -> None:
        own = {pid: kind for kind, pid in self._dagster().items()}
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                kind, stream = self._kind(process, own)
                if kind is None:
                    continue
                with process.oneshot():
                    held = process.memory_full_info().uss / _MB
                    born, threads = process.create_time(), process.num_threads()
                files = process.num_fds()
                self.samples.append(
                    Sample(at, kind, stream, process.pid, born, held, threads, files)
                )

    def _kind(
        self, process: psutil.Process, own: Mapping[int, str]
    ) -> tuple[str | None, str | None]:
        if process.pid in own:
            return own[process.pid], None
        if process in self._kinds:
            return self._kinds[process]
        line = process.cmdline()
        if not line or process.status() == psutil.STATUS_ZOMBIE:
            return None, None
        environment = process.environ()
        if self._folder not in environment.get("TMPDIR", "") and not any(
            self._folder in word for word in line
        ):
            return None, None
        stream = environment.get(MARKER, "").partition(":")[0] or None
        found = kind_of(line), stream
        if time.time() - process.create_time() > EVERY:  # it may yet become another program
            self._kinds[process] = found
        return found


def kind_of(line: Sequence[str]) -> str:
    """What a process is by its command line."""
    if line[1:3] == ["-m", "dagster_sparkscale.driver"]:
        return "driver"
    for word, kind in (
        ("org.apache.spark.deploy.SparkSubmit", "driver's JVM"),
        ("org.apache.spark.executor.CoarseGrainedExecutorBackend", "executor"),
        ("org.apache.spark.deploy.master.Master", "master"),
        ("org.apache.spark.deploy.worker.Worker", "worker"),
    ):
        if word in line:
            return kind
    if any(word.endswith("clusters/host/supervisor.py") for word in line):
        return "supervisor"
    if any("pyspark" in word for word in line):
        return "Python worker"
    return "run" if "dagster" in line or "multiprocessing" in " ".join(line) else "other"


def compared(samples: Iterable[Sample], begun: float, seconds: float) -> dict[str, Kind]:
    """How each kind has gone, of the processes that were there from the first eighth to the end."""
    by_process: dict[tuple[str, int, float], list[Sample]] = defaultdict(list)
    for each in samples:
        if each.kind in COMPARED:
            by_process[each.kind, each.pid, each.born].append(each)
    found: dict[str, Kind] = {}
    for kind in COMPARED:
        lasting = [
            taken
            for (of, _, born), taken in by_process.items()
            if of == kind and born - begun <= seconds / 8 and taken[-1].at >= seconds - 4 * EVERY
        ]
        if lasting:
            found[kind] = _grown(lasting, seconds)
    return found


def _grown(lasting: Sequence[Sequence[Sample]], seconds: float) -> Kind:
    def mean(of: Sequence[Sample], quarter: int, what: str) -> float:
        begin, end = seconds * (quarter - 1) / 4, seconds * quarter / 4
        return statistics.mean(getattr(each, what) for each in of if begin <= each.at < end)

    def sums(what: str) -> tuple[float, float]:
        second, last = (sum(mean(of, quarter, what) for of in lasting) for quarter in (2, 4))
        return second, last

    second, last = sums("megabytes")
    worst = max(mean(of, 4, "megabytes") / mean(of, 2, "megabytes") for of in lasting)
    (files, files_last), (threads, threads_last) = sums("files"), sums("threads")
    return Kind(
        growth=round(last / second, 4),
        processes=len(lasting),
        second_mb=round(second, 1),
        last_mb=round(last, 1),
        worst=round(worst, 4),
        files=round(files_last / files, 4),
        threads=round(threads_last / threads, 4),
    )


def too_much(kind: Mapping[str, float]) -> bool:
    """Whether a kind, as JSON, has grown by more than it may."""
    handles = max(kind["files"], kind["threads"])
    return kind["growth"] > GOAL or kind["worst"] > GOAL_OF_ONE or handles > GOAL_OF_HANDLES


def heaps(folder: Path) -> dict[str, list[tuple[float, float]]]:
    """What the JVM of each driver held after each full collection: seconds of its life, and MB; by
    stream and pid."""
    found = {}
    for log in sorted(folder.glob("streams/*/gc-*.log")):
        pattern = r"\[([\d.]+)s\].*Pause Full.* \d+M->(\d+)M\("
        lines = re.findall(pattern, log.read_text(errors="replace"))
        if lines:
            found[f"{log.parent.name} {log.stem}"] = [(float(at), float(mb)) for at, mb in lines]
    return found


def as_json(samples: Iterable[Sample]) -> list[list[Any]]:
    """Samples in rows, with numbers rounded."""
    return [
        [
            *(round(each.at, 1), each.kind, each.stream, each.pid, round(each.born, 1)),
            *(round(each.megabytes, 2), each.threads, each.files),
        ]
        for each in samples
    ]


def kinds_as_json(kinds: Mapping[str, Kind]) -> dict[str, Any]:
    return {name: asdict(kind) for name, kind in kinds.items()}
