"""The rig: its settings, and that nothing of it outlives who wanted it."""

import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from dagster_sparkscale.clusters.host.processes import carrying
from dev.hadoop.settings import xml
from dev.yarn import settings
from tests.waiting import HANGS, wait_for

KEEPER = """\
import sys, time
from pathlib import Path
from dev.yarn.rig import tethered
with tethered(Path(sys.argv[1])) as address:
    print(address.mark, flush=True)
    time.sleep(900)
"""


def test_settings_are_written_as_hadoop_reads_them() -> None:
    root = ET.fromstring(xml({"a.b": "<1> & 2"}))
    assert [(p.findtext("name"), p.findtext("value")) for p in root] == [("a.b", "<1> & 2")]


@pytest.mark.spark
@pytest.mark.yarn
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
    assert len(carrying(settings.MARK, mark.__eq__)) == 1 + settings.NODES
    wanting.send_signal(signal.SIGKILL)
    wanting.wait(HANGS)
    wait_for("all of it to end", lambda: not carrying(settings.MARK, mark.__eq__))
