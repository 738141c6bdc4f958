"""A query that writes files goes on after a change, past the compactions of its sink's log."""

import json
import re
from pathlib import Path

import pytest

from dagster_sparkscale.driver.settings import KEY_GROUPS, PLAN
from dagster_sparkscale.driver.state import layout
from dagster_sparkscale.driver.state.plans import StatePlan
from dagster_sparkscale.driver.state.reporting import HOLD_AT
from tests.conftest import PROGRAMS
from tests.driver.running import Start, local_driver
from tests.driver.state.drivers import BEGIN, GROUPS
from tests.releases import CHANGES_STATE
from tests.waiting import HANGS, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.clusters, CHANGES_STATE]

NAMES = ("files", "table")
EVERY = 3
"""Batches to a compaction of the sink's log: an entry that has all that were before."""


class Filing:
    def __init__(self, start: Start, folder: Path) -> None:
        self._start, self._folder, self._lives, self._keys = start, folder, 0, 0
        self.data = folder / "data"

    def driver(self, plan: StatePlan | None = None, hold_at: str = ""):
        self._lives += 1
        return self._start(
            self._folder / str(self._lives),
            PROGRAMS / "filing.py",
            str(self.data),
            settings={
                KEY_GROUPS: str(GROUPS),
                layout.PARTITIONS: str(BEGIN),
                layout.PROVIDER: layout.ROCKSDB,
                "spark.sql.streaming.fileSink.log.compactInterval": str(EVERY),
                "spark.sql.streaming.fileSink.log.cleanupDelay": "1h",
                **({PLAN: plan.to_json()} if plan else {}),
            },
            env={HOLD_AT: hold_at} if hold_at else {},
        )

    def feed(self, driver) -> None:
        """Have a new line filed, by a batch of its own, and all that were before as well."""
        self._keys += 1
        (self.data / "in").mkdir(parents=True, exist_ok=True)
        draft = self.data / "draft"
        draft.write_text(f"key{self._keys}\n")
        draft.rename(self.data / "in" / f"{self._keys}.csv")
        right = [f"key{number + 1}" for number in range(self._keys)]
        for name in NAMES:
            wait_for(
                f"{name} to have {self._keys} lines",
                lambda name=name: sorted(self.filed(name)) == sorted(right),
                about=lambda: driver.log()[-6000:],
            )

    def filed(self, name: str) -> list[str]:
        """The lines in all files that the sink's log has, each as often as it is there."""
        found: list[str] = []
        for file in self._in_log(name):
            found += [json.loads(line)["key"] for line in file.read_text().splitlines()]
        return found

    def batches(self, name: str) -> list[int]:
        """In the log, of those since its last compaction that it still needs."""
        return sorted(self._entries(name))

    def _entries(self, name: str) -> dict[int, Path]:
        log = self.data / name / "_spark_metadata"
        return {
            int(each.name.partition(".")[0]): each
            for each in (log.iterdir() if log.is_dir() else ())
            if re.fullmatch(r"\d+(\.compact)?", each.name)
        }

    def _in_log(self, name: str) -> set[Path]:
        told = [
            json.loads(line)["path"].removeprefix("file://")
            for entry in self._entries(name).values()
            for line in entry.read_text().splitlines()[1:]
        ]
        return {Path(path) for path in told}


def goes_on(filing: Filing, driver) -> None:
    for _ in range(EVERY + 1):  # at least one compaction
        filing.feed(driver)


def changed_after(start: Start, folder: Path, batches: int) -> None:
    """A change takes the number of a batch, which its sink's log would then lack."""
    filing = Filing(start, folder)
    with filing.driver() as driver:
        for _ in range(batches):
            filing.feed(driver)
        driver.stop()
        driver.exit_code(HANGS)
    with filing.driver(StatePlan("up", 8, GROUPS, queries=NAMES)) as driver:
        goes_on(filing, driver)
        assert [r.outcome for r in driver.status().reconfigurations] == ["changed", "changed"]
        driver.stop()
        driver.exit_code(HANGS)
    for name in NAMES:
        there = filing.batches(name)
        assert there == list(range(there[0], there[-1] + 1)), name


def test_it_goes_on_where_the_change_takes_the_batch_of_a_compaction(tmp_path):
    changed_after(local_driver, tmp_path, EVERY - 1)
