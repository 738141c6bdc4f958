"""What clusters have in common that keep what they remember in a folder of this host.

Every process of the deployment must be given the same one, for it is what keeps two drivers off
one checkpoint.
"""

import os
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from dagster_sparkscale.clusters.env_values import is_text
from dagster_sparkscale.clusters.host.folder_store import FolderStore
from dagster_sparkscale.clusters.spark_cluster import SparkCluster


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

    def state_path(self) -> Path:
        # Not the working directory if there is anything better: seen from another one, a stream
        # that runs would look as if it had never been started.
        home = Path(os.environ.get("DAGSTER_HOME") or Path.cwd()).expanduser()
        return (home / Path(self.state_dir).expanduser()).absolute()
