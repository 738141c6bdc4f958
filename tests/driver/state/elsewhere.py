"""Checkpoints that are in no folder of this host: on HDFS, in an object store."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dagster_sparkscale.driver.state import hook
from dagster_sparkscale.driver.state.layout import COPIES
from dagster_sparkscale.driver.state.plans import StatePlan
from dev.hdfs.rig import Address
from dev.s3.connector import connector
from dev.s3.server import Store
from tests.driver.running import Driver, Start
from tests.driver.state.counted import Counting
from tests.driver.state.drivers import BEGIN, BESIDE, GROUPS, Drivers, ask, the_one
from tests.driver.state.waiting import over

AFTER = 8
_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_MANAGERS = "org.apache.spark.sql.execution.streaming.checkpointing."
OWN = f"{_MANAGERS}FileContextBasedCheckpointFileManager"
"""Spark's own choice, on HDFS as in S3; tests take a faster one for local folders
(`tests/short_lives.py`)."""
RENAMING = f"{_MANAGERS}FileSystemBasedCheckpointFileManager"


class Place(Protocol):
    @property
    def url(self) -> str:
        """The root, as Hadoop names it."""

    def content(self, folder: str) -> dict[str, bytes]:
        """All files in a folder, however deep, by their paths in it."""


@dataclass(frozen=True)
class Elsewhere:
    place: Place
    folder: str
    """In it are the checkpoints, each in one of its query's name."""
    settings: Mapping[str, str]
    """Of Spark."""


_COMPLETING = "spark.hadoop.dfs.client.block.write.locateFollowingBlock"


def on_hdfs(hdfs: Address) -> Elsewhere:
    asked_soon = {
        # Most files are closed before their datanode has reported them: by default a client asks
        # again after 0.4 s.
        f"{_COMPLETING}.initial.delay.ms": "10",
        f"{_COMPLETING}.retries": "10",
    }
    return _elsewhere(hdfs, {_MANAGER: OWN, "spark.hadoop.dfs.replication": "1", **asked_soon})


def on_s3(store: Store, manager: str = OWN) -> Elsewhere:
    return _elsewhere(store, {_MANAGER: manager, "spark.jars": connector(), **store.settings})


def _elsewhere(place: Place, settings: Mapping[str, str]) -> Elsewhere:
    folder = f"/checkpoints-{uuid.uuid4().hex[:8]}"
    return Elsewhere(place, folder, {hook.CHECKPOINTS: place.url + folder, **settings})


class CountingElsewhere(Counting):
    """A query whose checkpoint is there."""

    def __init__(self, folder: Path, name: str, elsewhere: Elsewhere) -> None:
        super().__init__(folder, name)
        self._elsewhere, self._name = elsewhere, name

    def _content(self) -> dict[str, bytes]:
        return self._elsewhere.place.content(f"{self._elsewhere.folder}/{self._name}")

    def copies(self) -> list[str]:
        """The files of copies in it."""
        return [name for name in self._content() if name.startswith(COPIES)]


class DriversElsewhere(Drivers):
    """Drivers of a query whose checkpoint is there."""

    def __init__(self, start: Start, folder: Path, elsewhere: Elsewhere) -> None:
        super().__init__(start, folder, settings=elsewhere.settings)
        self.counting = CountingElsewhere(self.data, "counts", elsewhere)
        self.queries = {"counts": self.counting}


def plan(id: str, partitions: int = AFTER) -> StatePlan:
    return StatePlan(id, partitions, GROUPS, queries=("counts",))


def cut_off_and_done_again(start: Start, folder: Path, elsewhere: Elsewhere) -> None:
    """A change by a restart that was cut off is undone, and done again."""
    drivers = DriversElsewhere(start, folder, elsewhere)
    counting = drivers.counting
    with drivers.started() as driver:
        drivers.count(driver)
        drivers.end(driver)
    was = counting.files()
    assert counting.partitions() == BEGIN

    drivers.killed_at("verifying", plan("first"))
    assert counting.partitions() == AFTER and was.keys() < counting.files().keys()

    go_on = folder / "go on"
    with drivers.started(plan("second"), hold_at=f"measuring={go_on}") as driver:
        status = driver.wait(
            lambda s: s.reconfiguring and s.reconfiguring.step == "measuring", "the second change"
        )
        assert [(each.id, each.outcome) for each in status.reconfigurations] == [
            ("first", "undone"),
            ("second", None),
        ]
        assert counting.files() == was
        go_on.touch()
        report = drivers.count(driver).reconfigurations[-1]
        assert (report.id, report.outcome, report.before, report.after) == (
            *("second", "changed", BEGIN, AFTER),
        )
        drivers.end(driver)
    now = counting.files()
    assert counting.partitions() == AFTER
    assert {name: now[name] for name in was} == was


def changed_in_place(
    driver: Driver, partitions: int, beside: Mapping[str, object] | None = None
) -> None:
    id = f"to {partitions}"
    answer = ask(driver, plan(id, partitions), beside=beside)
    assert answer.status_code == 200, answer.text
    report = over(driver, id)
    assert (report.outcome, report.reason, report.down) == ("changed", None, None)
    way = "in place" if beside is None else "beside the stream"
    assert (report.way, report.beside, report.after) == (way, None, partitions)


def cut_off_in_place_and_done_again(
    start: Start,
    folder: Path,
    elsewhere: Elsewhere,
    step: str = "verifying",
    beside: Mapping[str, object] | None = None,
) -> None:
    """A change in place, or beside the stream, that was cut off is undone by the next driver, which
    makes another as it counts; and the one after that goes on."""
    drivers = DriversElsewhere(start, folder, elsewhere)
    counting = drivers.counting
    drivers.killed_in_place_at(step, plan("first"), beside)
    assert counting.partitions() == AFTER
    with drivers.started() as driver:
        status = drivers.count(driver)
        report = the_one(status)
        assert (report.id, report.outcome, report.before) == ("first", "undone", BEGIN), report
        assert counting.partitions() == BEGIN
        assert not counting.copies()
        changed_in_place(driver, 2, beside)
        assert not counting.copies()
        drivers.count(driver)
        assert counting.partitions() == 2
        drivers.end(driver)
    with drivers.started() as driver:
        assert drivers.count(driver).reconfigurations == ()
        drivers.end(driver)
    assert counting.partitions() == 2


def cut_off_beside_and_done_again(start: Start, folder: Path, elsewhere: Elsewhere) -> None:
    """Once what the copy has come to is in the checkpoint, and is not accepted yet."""
    cut_off_in_place_and_done_again(start, folder, elsewhere, "accepting", BESIDE)
