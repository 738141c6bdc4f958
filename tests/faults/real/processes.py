"""Processes that stand still, or can't open a file or a connection, for longer than a lease and
than Spark's own deadlines, and go on.

The sensor goes on meanwhile, and what it asks for is carried out. What must hold: a driver that
stands still is not replaced while its process is there, as it might go on; one process is the
stream's driver in the end, and its batches go on with the executors that are wanted.
"""

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import psutil

from dagster_sparkscale import LocalCluster, RatioPolicy
from tests.e2e.deployment import Deployment, deployed, paced_stream, told
from tests.e2e.soak_faults import VICTIMS, drivers, healthy
from tests.faults.real.watched import (
    RESTARTED_AT_ONCE,
    Record,
    goes_on,
    lasts,
    recovers,
    restarts,
    ticked,
)
from tests.waiting import wait_for

LASTS = 75.0
"""Seconds: longer than a lease (20 s), and than a master waits for a worker, and a worker for its
master (60 s)."""


def fault_name(how: str, who: str) -> str:
    """The name of the fault that one of `HOW` is for one of `VICTIMS`."""
    return f"{how}-{who.rpartition(' ')[2]}"


def play(cluster: LocalCluster, folder: Path, how: str, who: str, record: Record) -> None:
    stream = paced_stream(
        fault_name(how, who).replace("-", "_"),
        folder,
        autoscale=RatioPolicy(interval=10, min_executors=2, max_executors=3),
        recovery=RESTARTED_AT_ONCE,
    )
    with deployed(cluster, stream, folder) as d:
        told(d.materialize())
        wait_for("two executors and a batch", lambda: healthy(d))
        with HOW[how](victims(cluster, d, who)):
            lasts(LASTS, lambda: seen_to(d) and at_most_one_moves(cluster))
        recovers(
            record,
            "one driver with batches",
            lambda: (
                seen_to(d)
                and len(drivers(cluster.state_dir)) == 1
                and goes_on(d, lambda _: healthy(d))
            ),
        )
        record("seen", restarts(d))


def victims(cluster: LocalCluster, d: Deployment, who: str) -> list[psutil.Process]:
    if who == "the driver":
        python = psutil.Process(*VICTIMS[who](cluster, d.driver()))
        return [python, *python.children(recursive=True)]
    return [psutil.Process(pid) for pid in VICTIMS[who](cluster, d.driver())]


@contextmanager
def standing_still(processes: list[psutil.Process]) -> Iterator[None]:
    try:
        for each in processes:
            os.kill(each.pid, signal.SIGSTOP)
        yield
    finally:
        for each in processes:
            if each.is_running():  # and is no other process with its number
                os.kill(each.pid, signal.SIGCONT)


@contextmanager
def without_descriptors(processes: list[psutil.Process]) -> Iterator[None]:
    """Have them open nothing more, while what they have open stays open."""
    with ExitStack() as given_back:
        for each in processes:
            given_back.callback(_limit, each, each.rlimit(psutil.RLIMIT_NOFILE))
            _, most = each.rlimit(psutil.RLIMIT_NOFILE)
            _limit(each, (_lowest_free(each), most))
        yield


def _lowest_free(process: psutil.Process) -> int:
    """The number that the next file would have which it opens."""
    taken = {int(number) for number in os.listdir(f"/proc/{process.pid}/fd")}
    return next(number for number in itertools.count() if number not in taken)


def _limit(process: psutil.Process, soft_and_hard: tuple[int, int]) -> None:
    if process.is_running():
        process.rlimit(psutil.RLIMIT_NOFILE, soft_and_hard)


HOW: dict[str, Callable[[list[psutil.Process]], AbstractContextManager[None]]] = {
    "stopped": standing_still,
    "no-descriptors": without_descriptors,
}


def seen_to(d: Deployment) -> bool:
    """Evaluate the stream, and have whatever is missing of its cluster started."""
    assert isinstance(d.cluster, LocalCluster)
    d.cluster.prepare()
    return ticked(d)


def at_most_one_moves(cluster: LocalCluster) -> bool:
    found = [psutil.Process(pid) for pid in drivers(cluster.state_dir)]
    return sum(each.status() != psutil.STATUS_STOPPED for each in found) <= 1
