"""Everything of a stream and its cluster stands still in turn, or can't open anything; and so does
Dagster."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from dagster_sparkscale import LocalCluster
from tests.e2e.soak_faults import VICTIMS
from tests.faults.real import dagsters, processes
from tests.faults.real.watched import Record
from tests.short_lives import EXECUTORS

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One of its own, whose master and workers may stand still."""
    folder = tmp_path_factory.mktemp("stopped")
    made = LocalCluster(
        state_dir=str(folder / "local"), workers=2, memory_per_worker="4g", spark_conf=EXECUTORS
    )
    made.prepare()
    yield made
    made.shutdown(force=True)


ALL = list(product(processes.HOW, VICTIMS))


@pytest.mark.parametrize(("how", "who"), ALL, ids=[processes.fault_name(*each) for each in ALL])
def test_a_process(
    cluster: LocalCluster, how: str, who: str, tmp_path: Path, record_property: Record
) -> None:
    processes.play(cluster, tmp_path, how, who, record_property)


@pytest.fixture(scope="module")
def deployed(
    cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dagsters.Deployed]:
    """A stream that a real Dagster looks after, with webserver and daemon."""
    with dagsters.deployed(cluster, tmp_path_factory.mktemp("dagsters")) as running:
        yield running


@pytest.mark.parametrize("name", dagsters.PLAYS)
def test_a_process_of_dagster(
    deployed: dagsters.Deployed, name: str, record_property: Record
) -> None:
    dagsters.play(deployed, name, record_property)
