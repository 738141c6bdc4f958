"""What clusters have in common that keep what they remember in a folder of this host.

Every process of the deployment must be given the same one, for it is what keeps two drivers off
one checkpoint.
"""

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from dagster_sparkscale.clusters.agents.agent import RemoteAgent
from dagster_sparkscale.clusters.base import Driver, is_text
from dagster_sparkscale.clusters.host.agent_files import agent_of
from dagster_sparkscale.clusters.host.folder_store import FolderStore
from dagster_sparkscale.clusters.host.folders import StreamFolder, SubmissionFolder
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.clusters.spark_cluster import SparkCluster
from dagster_sparkscale.clusters.submitted import SubmittedDriver
from dagster_sparkscale.once import once


class FolderDriver(SubmittedDriver):
    """The newest submission of a stream that is remembered in a folder of this host."""

    def __init__(self, folder: StreamFolder, record: Record) -> None:
        super().__init__(folder.stream, record)
        self.folder = folder

    @once
    def files(self) -> SubmissionFolder:
        return self.folder.submission(self.record.epoch)

    def agent(self) -> RemoteAgent:
        return agent_of(self.stream, self.record.epoch, self.files)

    def is_overtaken(self) -> bool:
        """Whether others have gone on without it, as after whoever launches it was held up."""
        newest = self.folder.read()
        mine = self.record.id, self.record.epoch
        return newest is None or (newest.id, newest.epoch) != mine


class StateFolderCluster(SparkCluster):
    """Remembers its streams in a folder of the host that Dagster runs on."""

    state_dir: str = Field(
        default=".sparkscale",
        description="Folder of what is remembered of the streams. The same one for every process "
        "of the deployment; a relative one is below $DAGSTER_HOME, or, where that is not set, "
        "below the folder that Dagster is started in.",
    )

    @field_validator("state_dir", mode="before")
    @classmethod
    def _folder_has_a_name(cls, value: Any) -> Any:
        if is_text(value) and not value.strip():
            raise ValueError('must be the name of a folder, such as ".sparkscale"')
        return value

    def store(self) -> FolderStore:
        return FolderStore(self.state_path())

    def files_of(self, driver: Driver) -> SubmissionFolder:
        return self.store().folder(driver.stream).submission(driver.epoch)

    def agent(self, driver: Driver) -> RemoteAgent:
        return agent_of(driver.stream, driver.epoch, self.files_of(driver), driver.agent_url)

    def state_path(self) -> Path:
        # Not the working directory if there is anything better: seen from another one, a stream
        # that runs would look as if it had never been started.
        return _below(os.environ.get("DAGSTER_HOME") or os.getcwd(), self.state_dir)


@lru_cache
def _below(home: str, state_dir: str) -> Path:
    # Kept: a tick asks for it several times for each stream.
    return (Path(home).expanduser() / Path(state_dir).expanduser()).absolute()
