"""The state of a query that reads a real Kafka is changed beside the stream, in a real driver."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from dagster_sparkscale.clusters.local import LocalCluster
from dagster_sparkscale.driver.settings import KEY_GROUPS
from dagster_sparkscale.driver.state import layout
from dagster_sparkscale.driver.state.plans import StatePlan
from dagster_sparkscale.driver.state.reporting import HOLD_AT
from dagster_sparkscale.driver.wire import Reconfiguration
from dev.kafka import client
from dev.kafka.broker import Kept
from dev.kafka.connector import connector
from tests.driver.running import Cluster, Driver, Start, local_driver
from tests.driver.state.counted import Counting
from tests.driver.state.drivers import BEGIN, BESIDE, GROUPS, ask
from tests.driver.state.test_in_place import held
from tests.driver.state.waiting import over
from tests.kafka.conftest import Topic
from tests.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.clusters]
PROGRAM = Path(__file__).parent / "programs" / "counting.py"
STEP = "catching up"
BATCHES = 3
"""Batches that come while a copy is about to catch up."""


class Counted(Counting):
    """One query of the program."""

    def __init__(self, folder: Path, name: str, topic: str, records: client.Records) -> None:
        super().__init__(folder, name)
        self.topic, self._records = topic, records

    def feed(self, keys: int = 40, times: int = 3) -> None:
        lines = [f"key{i}" for i in range(keys) for _ in range(times)]
        self.put.update(lines)
        self._records.put(self.topic, lines)

    def count(self, driver: Driver) -> None:
        """Have new records counted, right with all that were before."""
        self.feed()
        wait_for("records to be counted", lambda: self.right, about=lambda: driver.log()[-6000:])

    def change(
        self, driver: Driver, after: int, go_on: Path, *, lost: str | None = None
    ) -> Reconfiguration:
        """Change its state, with batches that the copy has to catch up with.

        Args:
            lost: the broker that loses the records of these batches before they are read again.
        """
        go_on.unlink(missing_ok=True)
        name = self.place.name
        to = StatePlan(f"{name} to {after}", after, GROUPS, queries=(name,))
        assert ask(driver, to, beside=BESIDE).status_code == 200
        held(driver, STEP)
        for _ in range(BATCHES):
            self.count(driver)
        if lost is not None:
            client.delete_records(lost, self.topic)
        go_on.touch()
        report = over(driver, to.id)
        assert (report.outcome, report.reason, report.down) == ("changed", None, None)
        assert (report.before, report.after) == (BEGIN, after)
        self.count(driver)
        assert self.partitions() == after
        return report


@contextlib.contextmanager
def started(start: Start, folder: Path, go_on: Path, *arguments: str) -> Iterator[Driver]:
    settings = {
        KEY_GROUPS: str(GROUPS),
        layout.PARTITIONS: str(BEGIN),
        layout.PROVIDER: layout.ROCKSDB,
        "spark.jars": connector(),
    }
    held = {HOLD_AT: f"{STEP}={go_on}"}
    with start(folder, PROGRAM, *arguments, settings=settings, env=held) as driver:
        yield driver


def test_batches_are_read_again_beside_the_stream_and_nothing_is_lost_or_counted_twice(
    kafka: Kept,
    topic: Topic,
    records: client.Records,
    local_cluster: LocalCluster,
    tmp_path: Path,
) -> None:
    start = Cluster(local_cluster).driver
    counts = Counted(tmp_path, "counts", topic(3), records)
    arguments = (kafka.address, str(tmp_path), f"counts={counts.topic}")
    go_on = tmp_path / "go on"
    with started(start, tmp_path / "driver", go_on, *arguments) as driver:
        counts.count(driver)
        assert driver.status().beside == {"counts": None}
        report = counts.change(driver, 16, go_on)
        assert (report.way, report.beside) == ("beside the stream", None)
    with started(start, tmp_path / "next", go_on, *arguments) as driver:
        counts.count(driver)
        assert counts.partitions() == 16


def test_records_that_are_gone_when_they_are_read_again_are_found_and_it_is_changed_in_place(
    kafka: Kept, topic: Topic, records: client.Records, tmp_path: Path
) -> None:
    why = {
        # Spark fails the batch.
        "strict": "Some data may have been lost because they are not available in Kafka any more",
        # Spark passes over them.
        "lenient": "the copy is not the same: operator 0, store 'default': rows of key group",
    }
    queries = [Counted(tmp_path, name, topic(2), records) for name in why]
    fails = {"strict": "true", "lenient": "false"}
    arguments = [f"{q.place.name}={q.topic}={fails[q.place.name]}" for q in queries]
    go_on = tmp_path / "go on"
    arguments = [kafka.address, str(tmp_path), *arguments]
    with started(local_driver, tmp_path / "driver", go_on, *arguments) as driver:
        for query in queries:
            query.count(driver)
        for query in queries:
            report = query.change(driver, 16, go_on, lost=kafka.address)
            assert report.way == "in place"
            assert why[query.place.name] in (report.beside or "")
