"""The rig: its settings, its jars, and that nothing of it outlives who wanted it."""

import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from dagster_sparkscale.clusters.host.processes import carrying
from dev.hadoop import jars
from dev.hadoop.settings import xml
from dev.yarn import settings
from tests.waiting import HANGS, wait_for

MIRRORS = """\
<settings xmlns="http://maven.apache.org/SETTINGS/1.0.0"><mirrors>
  <mirror><mirrorOf>snapshots</mirrorOf><url>http://127.0.0.1/other</url></mirror>
  <mirror><mirrorOf>{of}</mirrorOf><url> http://127.0.0.1/maven </url></mirror>
</mirrors></settings>
"""
KEEPER = """\
import sys, time
from pathlib import Path
from dev.yarn.rig import tethered
with tethered(Path(sys.argv[1])) as address:
    print(address.mark, flush=True)
    time.sleep(900)
"""


@pytest.mark.parametrize(
    ("of", "url"),
    [
        ("*", "http://127.0.0.1/maven"),
        ("central", "http://127.0.0.1/maven"),
        ("repo1, central", "http://127.0.0.1/maven"),
        ("*,!central", None),
        ("repo1", None),
    ],
)
def test_a_mirror_of_maven_central_is_heeded(tmp_path: Path, of: str, url: str | None) -> None:
    path = tmp_path / "settings.xml"
    path.write_text(MIRRORS.format(of=of))
    assert jars.mirror(path) == url


def test_without_settings_there_is_no_mirror(tmp_path: Path) -> None:
    assert jars.mirror(tmp_path / "settings.xml") is None


def test_each_jar_is_locked_once() -> None:
    locked = jars.wanted()
    assert len({(jar.organisation, jar.name) for jar in locked}) == len(locked) > 100
    assert all(len(jar.sha256) == 64 for jar in locked)


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
