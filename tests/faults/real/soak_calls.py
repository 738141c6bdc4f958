"""Every damage of calls to a local cluster."""

from pathlib import Path

import pytest

from dagster_sparkscale import LocalCluster
from tests.faults.real import life
from tests.faults.real.watched import Record

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("name", life.FAULTS)
def test_calls(
    local_cluster: LocalCluster, name: str, tmp_path: Path, record_property: Record
) -> None:
    life.play(local_cluster, tmp_path, name, record_property)
