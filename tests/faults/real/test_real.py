"""One fault of a real connection and one of a real disk; `soak_links.py`, `soak_disks.py` and
`soak_processes.py` have all of them."""

from pathlib import Path

import pytest

from tests.faults.real import agent_link, disks
from tests.faults.real.links import Damage
from tests.faults.real.watched import Record
from tests.kubernetes import on_linux_as_root
from tests.short_lives import EXECUTORS

pytestmark = [pytest.mark.spark, pytest.mark.clusters]


def test_answers_of_the_agent_that_disappear(
    steered: agent_link.Steered, record_property: Record
) -> None:
    agent_link.play(steered, Damage.HOLE_BACK, record_property)


@pytest.mark.skipif(not on_linux_as_root(), reason="only root may mount a disk")
def test_a_state_folder_whose_disk_is_full(tmp_path: Path, record_property: Record) -> None:
    disks.play("state-folder", "full", tmp_path, dict(EXECUTORS), record_property)
