"""Shared fixtures: a real Spark cluster, started once for all tests that need one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dagster_sparkscale.clusters.local import LocalCluster

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="session")
def local_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A LocalCluster of 2 workers with 6 cores each; whatever it runs in the end is stopped."""
    cluster = LocalCluster(
        state_dir=str(tmp_path_factory.mktemp("local") / "state"),
        workers=2,
        cores_per_worker=6,
        memory_per_worker="8g",
    )
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.shutdown(force=True)
