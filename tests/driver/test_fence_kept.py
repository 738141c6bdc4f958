"""Real drivers and the mark in their checkpoint: written, kept, lost and given up."""

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from dagster_sparkscale.driver.begin.fence import FENCED, FILE, Mark
from dagster_sparkscale.driver.ending.end_report import EndReport
from tests.driver.conftest import PROGRAMS
from tests.driver.running import Driver, end_report
from tests.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.clusters]

MOUNT = "spark.hadoop.fs.viewfs.mounttable.c.link./"


@contextlib.contextmanager
def mounting(folder: Path, *mounts: str, ends: str = "stops") -> Iterator[Driver]:
    """A driver that has these file systems from its start; its program adds the others."""
    for name in ("ck", "data"):
        (folder / name).mkdir()
    settings = {"spark.master": "local[1]", "spark.sparkscale.checkpointLocation": "viewfs://c/ck"}
    settings |= {MOUNT + name: f"file://{folder / name}" for name in mounts}
    driver = Driver(folder, PROGRAMS / "mounts.py", str(folder), ends, settings=settings)
    try:
        wait_for("its program", (folder / "outcome").exists, 120, about=driver.log)
        yield driver
    finally:
        driver.kill()


def says_ended(mark: Path, ended: bool) -> bool:
    return f'"ended": {json.dumps(ended)}' in mark.read_text()


def test_a_file_system_that_its_program_sets_up_has_the_mark_from_then_on(tmp_path: Path) -> None:
    with mounting(tmp_path, "other") as driver:
        mark = tmp_path / "ck" / FILE
        wait_for("its mark", lambda: mark.exists() and says_ended(mark, False), about=driver.log)
        assert "is not within a mount point" in driver.log()  # as Java has told it before
        assert (tmp_path / "took.json").exists()
        (tmp_path / "go").touch()
        assert driver.exit_code() == 0
        assert says_ended(mark, True)


def test_a_program_that_fails_may_work_on_for_a_moment_so_its_mark_stays(tmp_path: Path) -> None:
    """What it has set up of file systems meanwhile is heeded, although they were used before. It
    ends with its traceback and code 1."""
    with mounting(tmp_path, "ck", ends="fails") as driver:
        mark = tmp_path / "ck" / FILE
        assert says_ended(mark, False)
        assert json.loads((tmp_path / "outcome").read_text()) == "True"
        (tmp_path / "go").touch()
        assert driver.exit_code() == 1
        assert says_ended(mark, False)
        assert "RuntimeError: the program is broken" in driver.log()
        assert "runpy" not in driver.log()  # nor anything else of ours in its traceback
        assert end_report(driver) == EndReport(
            took=True, raised="RuntimeError: the program is broken"
        )


def test_a_state_folder_that_hangs_keeps_no_driver_alive_that_has_lost_its_checkpoint(
    tmp_path: Path,
) -> None:
    with mounting(tmp_path, "ck") as driver:
        # What is opened to write to it waits for a reader.
        os.mkfifo(tmp_path / f".fenced.json.{driver.process.pid}")
        another = Mark("tested", "another", 1, "k", 1.0, "process 7 on there")
        (tmp_path / "ck" / f".{FILE}.crc").unlink(missing_ok=True)
        (tmp_path / "ck" / FILE).write_text(json.dumps(asdict(another)))
        assert driver.exit_code() == FENCED
        assert "has been taken by driver 1 of 'tested', process 7 on there" in driver.log()
        assert (report := end_report(driver)).took and report.fenced
        assert "process 7 on there" in report.fenced
        assert not says_ended(tmp_path / "ck" / FILE, True)
