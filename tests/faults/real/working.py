"""Which drivers of a stream work on its checkpoint, by the processes that there are."""

from collections import defaultdict
from contextlib import suppress

import psutil

from dagster_sparkscale import LocalCluster
from dagster_sparkscale.clusters.host import processes


def processes_of(stream: str) -> list[psutil.Process]:
    """All that belong to drivers of a stream, those that are left of them included."""
    return processes.marked(f"{stream}::")


def working(cluster: LocalCluster, stream: str) -> list[str]:
    """The drivers that have taken the checkpoint, and have a process that may write it: their own,
    or their JVM, which may go on without. In words."""
    own: dict[int, set[int]] = defaultdict(set)
    for process in processes_of(stream):
        with suppress(psutil.Error):
            epoch = int(process.environ()[processes.MARKER].split(":")[1])
            if is_driver(process):
                own[epoch].add(process.pid)
            elif _is_jvm(process):
                own[epoch] |= set()
    folder = cluster.store().folder(stream)
    taken = [epoch for epoch in sorted(own) if folder.submission(epoch).has_taken_its_checkpoint()]
    return [
        words
        for epoch in taken
        for words in ([f"{epoch} in process {pid}" for pid in sorted(own[epoch])] or [f"{epoch}"])
    ]


def is_driver(process: psutil.Process) -> bool:
    """Whether it is a driver's own process, and not one that it is about to start."""
    try:
        return _is_python_of_one(process) and not _is_python_of_one(process.parent())
    except psutil.Error:  # it has ended
        return False


def _is_python_of_one(process: psutil.Process | None) -> bool:
    line = process.cmdline() if process is not None else []
    return line[1:3] == ["-m", "dagster_sparkscale.driver"]


def _is_jvm(process: psutil.Process) -> bool:
    return "org.apache.spark.deploy.SparkSubmit" in process.cmdline()
