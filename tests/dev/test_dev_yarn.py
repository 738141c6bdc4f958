"""The rig: its settings, and that nothing of it outlives who wanted it."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from dev.hadoop.settings import xml
from dev.yarn import settings
from tests.dev.tethers import outlived_by_nothing


def test_settings_are_written_as_hadoop_reads_them() -> None:
    root = ET.fromstring(xml({"a.b": "<1> & 2"}))
    assert [(p.findtext("name"), p.findtext("value")) for p in root] == [("a.b", "<1> & 2")]


@pytest.mark.spark
@pytest.mark.yarn
def test_nothing_outlives_who_wanted_it(tmp_path: Path) -> None:
    outlived_by_nothing("dev.yarn.rig", tmp_path / "rig", processes=1 + settings.NODES)
