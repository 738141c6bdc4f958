"""A store in a folder of this host: a folder for each stream."""

import os
from contextlib import AbstractContextManager
from pathlib import Path

from dagster_sparkscale.clusters.host import leases
from dagster_sparkscale.clusters.host.folders import StreamFolder, is_name
from dagster_sparkscale.clusters.store import Lease, Record


class FolderStore:
    """What is remembered below `state_dir`. Keeps nothing itself."""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir

    def folder(self, stream: str) -> StreamFolder:
        return StreamFolder(self.state_dir, stream)

    def streams(self) -> list[str]:
        try:
            names = os.listdir(self.state_dir / "streams")
        except OSError:
            return []
        return sorted(filter(is_name, names))

    def read(self, stream: str) -> Record | None:
        return self.folder(stream).read()

    def write(self, stream: str, record: Record) -> None:
        self.folder(stream).write(record)

    def lease(self, stream: str, holder: str, wait: float) -> AbstractContextManager[Lease]:
        folder = self.folder(stream)
        folder.create()
        return leases.hold(folder.path, stream, holder, wait)

    def check(self, stream: str, lease: Lease) -> None:
        leases.check(self.folder(stream).path, stream, lease)
