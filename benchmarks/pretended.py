"""Streams that a cluster manager takes for submitted, though nobody has submitted them."""

import socket
from collections.abc import Mapping
from pathlib import Path

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
