"""The rig of HDFS: nothing of it outlives who wanted it, also where it did not come up."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dagster_sparkscale.clusters.host.processes import carrying
from dev.hadoop.rig import RigFailed
from dev.hadoop.settings import MARK
from dev.hdfs import rig
from tests.waiting import HANGS, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.hdfs]

KEEPER = """\
import sys, time
from pathlib import Path
from dev.hdfs.rig import tethered
with tethered(Path(sys.argv[1])) as address:
    print(address.mark, flush=True)
    time.sleep(900)
"""


def test_nothing_outlives_who_wanted_it(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    wanting = subprocess.Popen(
        [sys.executable, "-c", KEEPER, str(tmp_path / "rig")],
        stdout=subprocess.PIPE,
        text=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert wanting.stdout is not None
    mark = wanting.stdout.readline().strip()
    assert len(carrying(MARK, mark.__eq__)) == 2
    wanting.send_signal(signal.SIGKILL)
    wanting.wait(HANGS)
    wait_for("all of it to end", lambda: not carrying(MARK, mark.__eq__))


def test_nothing_is_left_of_one_that_did_not_come_up(tmp_path: Path) -> None:
    """Its DataNode can't keep blocks where a file is."""
    broken = rig.Rig(tmp_path / "rig")
    (tmp_path / "rig" / "datanode").mkdir(parents=True)
    (tmp_path / "rig" / "datanode" / "blocks").write_text("in the way")
    with pytest.raises(RigFailed, match="waited for the DataNode"), broken:
        pytest.fail("it came up")
    assert carrying(MARK, broken.mark.__eq__) == []
