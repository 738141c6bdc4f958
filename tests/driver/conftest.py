"""A real Standalone cluster, and real drivers on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.driver.running import Cluster

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A master and one worker with 6 cores, on loopback; all it runs is ended in the end."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running
