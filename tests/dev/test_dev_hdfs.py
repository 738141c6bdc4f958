"""The rig of HDFS: nothing of it outlives who wanted it, also where it did not come up."""

from pathlib import Path

import pytest

from dagster_sparkscale.clusters.host.processes import carrying
from dev.hadoop.rig import RigFailed
from dev.hadoop.settings import MARK
from dev.hdfs import rig
from tests.dev.tethers import outlived_by_nothing

pytestmark = [pytest.mark.spark, pytest.mark.hdfs]


def test_nothing_outlives_who_wanted_it(tmp_path: Path) -> None:
    outlived_by_nothing("dev.hdfs.rig", tmp_path / "rig", processes=2)


def test_nothing_is_left_of_one_that_did_not_come_up(tmp_path: Path) -> None:
    """Its DataNode can't keep blocks where a file is."""
    broken = rig.Rig(tmp_path / "rig")
    (tmp_path / "rig" / "datanode").mkdir(parents=True)
    (tmp_path / "rig" / "datanode" / "blocks").write_text("in the way")
    with pytest.raises(RigFailed, match="waited for the DataNode"), broken:
        pytest.fail("it came up")
    assert carrying(MARK, broken.mark.__eq__) == []
