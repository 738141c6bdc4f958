"""A stream that was given an epoch in a real folder, as a start does it, with nothing launched."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from dagster_sparkscale.clusters.host.drivers import HostedDriver
from dagster_sparkscale.clusters.host.folder_store import FolderStore
from dagster_sparkscale.clusters.records import leases, starts
from dagster_sparkscale.clusters.records.store import Record


def begun(state: Path, stream: str = "clicks", times: int = 1, **fields: Any) -> HostedDriver:
    """The newest submission after as many starts."""
    store = FolderStore(state)
    drivers = starts.Drivers(lambda name: None, lambda *_: False, lambda name: nullcontext())  # type: ignore[arg-type, return-value]
    told: dict[str, Any] = {"cause": "manual", "checkpoint": None, "declared": {}}
    with leases.hold(store, stream, "test", 0.0) as lease:
        for _ in range(times):
            record = starts.begin(store, lease, drivers, **told | fields).record
    return HostedDriver(store.folder(stream), record)


def changed(driver: HostedDriver, **fields: Any) -> Record:
    """The record with other fields, written down."""
    store = FolderStore(driver.folder.path.parent.parent)
    with leases.hold(store, driver.folder.stream, "test", 0.0) as lease:
        return lease.write(replace(lease.record, **fields))
