"""An archive of class data for tests."""

from pathlib import Path

from dagster_sparkscale.clusters.class_data.archives import make
from dagster_sparkscale.clusters.class_data.maker import CannotMake


def made(java: Path, spark: Path, folder: Path) -> Path | None:
    """The archive, made unless there is one; waits for another process that makes it. None: it
    can't be made."""
    try:
        return make(java, spark, folder)
    except CannotMake:
        return None
