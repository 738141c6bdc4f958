"""Streams that a cluster manager takes for submitted, though nobody has submitted them; the process
of their agents, and a tick over them."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import dagster as dg

from benchmarks.agents import TOKEN
from dagster_sparkscale.clusters.host.drivers import HostedDriver
from dagster_sparkscale.clusters.host.folder_store import FolderStore
from dagster_sparkscale.clusters.host.supervisor import birth, write_json
from dagster_sparkscale.clusters.records import leases, starts


def pretend_submitted(
    state: Path, urls: dict[str, str], pid: int, declared: Mapping[str, str]
) -> list[str]:
    """Leave on disk what a submission leaves, with the agents' process for a driver."""
    store = FolderStore(state)
    drivers = starts.Drivers(
        lambda _: None, lambda *_: False, lambda one: leases.hold(store, one, "benchmark", 0)
    )
    for name, url in urls.items():
        with leases.hold(store, name, "benchmark", 0.0) as lease:
            start = starts.begin(
                store, lease, drivers, cause="manual", checkpoint=None, declared=declared
            )
        submission = HostedDriver(store.folder(name), start.record).files
        submission.create()
        submission.write_private(submission.token, TOKEN)
        write_json(submission.agent, {"url": url, "pid": pid, "host": socket.gethostname()})
        write_json(
            submission.driver,
            {
                "pid": pid,
                "birth": birth(pid),
                "supervisor_pid": pid,
                "supervisor_birth": birth(pid),
            },
        )
    return list(urls)


@contextmanager
def agents(
    count: int, module: str = "benchmarks.agents"
) -> Iterator[tuple["subprocess.Popen[bytes]", dict[str, str]]]:
    """A process of `module` with `count` agents, and their URLs."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        yield process, json.loads(process.stdout.readline())
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


@contextmanager
def tick_context(
    defs: dg.Definitions, instance: dg.DagsterInstance, cursor: str | None
) -> Iterator[dg.SensorEvaluationContext]:
    """What a sensor of `defs` is evaluated with, its resources made: the daemon makes them before
    it calls the sensor."""
    with dg.build_sensor_context(
        instance=instance, cursor=cursor, definitions=defs, resources=defs.resources
    ) as context:
        context.resources  # noqa: B018
        yield context
