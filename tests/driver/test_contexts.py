"""A real driver whose program stops its SparkContext and makes another one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dagster_sparkscale.observe.status import Query, Status
from tests.driver.conftest import PROGRAMS
from tests.driver.running import Driver

pytestmark = [pytest.mark.spark, pytest.mark.clusters]


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    program = PROGRAMS / "contexts.py"
    running = Driver(tmp_path, program, str(tmp_path), settings={"spark.master": "local[2]"})
    yield running
    running.kill()


def query(seen: Status, name: str) -> Query | None:
    return next((query for query in seen.queries if query.name == name), None)


def runs(name: str, seen: Status) -> bool:
    found = query(seen, name)
    return found is not None and found.active and any(b.query == name for b in seen.batches)


def has_ended(name: str, seen: Status) -> bool:
    found = query(seen, name)
    return found is not None and not found.active


def test_queries_end_with_their_context(driver: Driver, tmp_path: Path) -> None:
    """No event tells of it: Spark's bus of events has ended too."""
    before = driver.wait(lambda s: runs("first", s), "the first runs").app_id
    (tmp_path / "stop").touch()
    driver.wait(lambda s: has_ended("first", s), "the first has ended")
    (tmp_path / "begin").touch()
    seen = driver.wait(lambda s: runs("second", s), "the second runs")
    assert has_ended("first", seen)
    after = driver.wait(lambda s: s.app_id != before, "it is another application")
    assert runs("second", after)
