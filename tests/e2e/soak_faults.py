"""A stream whose processes are killed at random is always brought back, by tracked runs alone.

`test_faults` and `tests/clusters/test_local.py` have each kind of kill once.
"""

import os
import signal
from itertools import permutations
from pathlib import Path

import psutil
import pytest

from dagster_sparkscale import LocalCluster, RatioPolicy, RecoveryPolicy
from dagster_sparkscale.clusters.base import Driver
from tests.clusters.client_mode import note
from tests.clusters.running import executors
from tests.clusters.test_local import daemons
from tests.e2e.deployment import Deployment, deployed, paced_stream, told
from tests.soaking import Soak
from tests.waiting import wait_for

pytestmark = pytest.mark.spark


def test_whatever_is_killed_the_stream_comes_back(
    local_cluster: LocalCluster, tmp_path: Path, soak: Soak
) -> None:
    stream = paced_stream(
        "battered",
        tmp_path,
        autoscale=RatioPolicy(interval=10, max_executors=3, min_executors=2),
        # Restarts count for a minute: the kills of an hour are no crash loop.
        recovery=RecoveryPolicy(first_delay=0.1, longest_delay=1, limit=20, within=60),
    )
    with deployed(local_cluster, stream, tmp_path) as d:
        told(d.materialize())
        epoch = d.driver().epoch
        ways = [kinds for count in (1, 2) for kinds in permutations(VICTIMS, count)]
        for number in soak.rounds():
            wait_for("two executors and a batch", lambda: healthy(d))
            before = d.status()
            seen = before.last_seq if before else 0
            for what in soak.one_of(number, ways):
                for process in VICTIMS[what](local_cluster, d.driver()):
                    print(f"killing {what}: process {process}", flush=True)
                    kill(process)
            evaluate_until_healthy(d, epoch, seen)
            assert d.driver().epoch >= epoch, "an epoch never goes back"
            epoch = d.driver().epoch
            assert len(drivers(local_cluster.state_dir)) == 1


def healthy(d: Deployment) -> bool:
    status = d.status()
    return bool(status and status.registered and status.registered >= 2 and status.batches)


def evaluate_until_healthy(d: Deployment, epoch: int, seen: int) -> None:
    """Evaluate the stream as the daemon does, and carry out what it asks for, until it runs: a new
    driver, or the one of that epoch with batches after `seen`."""

    def ticked() -> bool:
        for request in d.tick().run_requests or []:
            d.requested(request)
        d.cluster.prepare()  # type: ignore[attr-defined]
        status = d.status()
        newer = d.driver().epoch > epoch or bool(status and status.last_seq > seen)
        return newer and healthy(d)

    wait_for("the stream to run again", ticked, 300, every=1)


def kill(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return  # taken down by another one that was killed


def drivers(folder: str) -> list[int]:
    """The Python processes that are drivers of the stream, by the state folder of its cluster."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = process.info["cmdline"] or []
        ours = any(word.startswith(f"{folder}/") for word in line)
        if line[1:3] == ["-m", "dagster_sparkscale.driver"] and ours:  # its supervisor names it too
            found.append(process.pid)
    return found


def _driver(cluster: LocalCluster, driver: Driver) -> list[int]:
    return [note(cluster, driver, "driver.json")["pid"]]


def _supervisor(cluster: LocalCluster, driver: Driver) -> list[int]:
    return [note(cluster, driver, "driver.json")["supervisor_pid"]]


def _executors(cluster: LocalCluster, driver: Driver) -> list[int]:
    return [process.pid for process in executors(cluster.state_dir, driver.app_id)]


def _worker(cluster: LocalCluster, driver: Driver) -> list[int]:
    return [daemons(cluster)["daemons"]["worker 1"]["pid"]]


def _master(cluster: LocalCluster, driver: Driver) -> list[int]:
    return [daemons(cluster)["daemons"]["master"]["pid"]]


VICTIMS = {
    "the driver": _driver,
    "its supervisor": _supervisor,
    "all executors": _executors,
    "a worker": _worker,
    "the master": _master,
}
