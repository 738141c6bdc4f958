"""Every fault of every disk."""

from itertools import product
from pathlib import Path

import pytest

from tests.faults.real import disks
from tests.faults.real.watched import Record
from tests.kubernetes import on_linux_as_root
from tests.short_lives import EXECUTORS

pytestmark = pytest.mark.spark
ALL = list(product(disks.WHERE, disks.FAULTS))


@pytest.mark.skipif(not on_linux_as_root(), reason="only root may mount a disk")
@pytest.mark.parametrize(("where", "fault"), ALL, ids=[f"{w}-{f}" for w, f in ALL])
def test_a_disk(where: str, fault: str, tmp_path: Path, record_property: Record) -> None:
    disks.play(where, fault, tmp_path, dict(EXECUTORS), record_property)
