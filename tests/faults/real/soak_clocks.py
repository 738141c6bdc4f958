"""Every jump of a clock."""

from pathlib import Path

import pytest

from dagster_sparkscale import LocalCluster
from tests.faults.real import clocks
from tests.faults.real.watched import Record

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("name", clocks.CLOCKS)
def test_a_clock(
    local_cluster: LocalCluster, name: str, tmp_path: Path, record_property: Record
) -> None:
    clocks.play(local_cluster, tmp_path, name, record_property)
