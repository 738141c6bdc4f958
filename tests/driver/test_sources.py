"""A real driver whose sources tell how far behind they are, and read their live limits."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dagster_sparkscale.observe.status import Batch, Query, Status
from tests.driver.conftest import PROGRAMS
from tests.driver.running import EPOCH, Driver
from tests.driver.shared import Shared
from tests.releases import has

pytestmark = [
    pytest.mark.spark,
    pytest.mark.clusters,
    pytest.mark.skipif(not has("4.2"), reason="a source in Python tells of itself from 4.2 on"),
]


def tell(folder: Path, **told: Any) -> None:
    draft = folder / "draft"
    draft.write_text(json.dumps({"v": 1, "stream": "clicks", **told}))
    draft.rename(folder / "told")


@pytest.fixture(scope="module")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared[Driver]]:
    settings = {
        "spark.master": "local[2]",
        # Or Spark would tell only every ten seconds that there was nothing.
        "spark.sql.streaming.noDataProgressEventInterval": "1s",
    }

    @contextlib.contextmanager
    def started() -> Iterator[Driver]:
        data = tmp_path_factory.mktemp("sources")
        tell(data, behind_ms=1, shards=1, lost=0)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SPARKSCALE_RATES_FILE", "of-another-driver")
            running = Driver(data / "driver", PROGRAMS / "telling.py", str(data), settings=settings)
        try:
            yield running
        finally:
            running.kill()

    with Shared(started) as drivers:
        yield drivers


@pytest.fixture
def driver(drivers: Shared[Driver]) -> Driver:
    """It runs, its query takes records, and no limit is set."""
    found = drivers.get(Driver.lives)
    (found.folder.parent / "quiet").unlink(missing_ok=True)
    if found.status().rates:
        assert put(found, {"clicks": None}).status_code == 200
    return found


@pytest.fixture
def data(driver: Driver) -> Path:
    """Where it reads what its query is to tell."""
    return driver.folder.parent


def told(queries: tuple[Query, ...], name: str) -> tuple[int | None, ...]:
    """The lag, shards and losses of a query."""
    found = [(q.behind_ms, q.source_shards, q.source_lost) for q in queries if q.name == name]
    return found[0] if found else ()


def batches(seen: Status, name: str) -> list[Batch]:
    """The batches of a query that were completed."""
    return [b for b in seen.batches if b.query == name and not b.failed]


def put(driver: Driver, rates: Any, epoch: int = EPOCH) -> Any:
    return driver.ask("PUT", "/v1/rates", {"epoch": epoch, "rates": rates})


def test_the_progress_of_a_query_brings_what_its_source_tells(driver: Driver, data: Path) -> None:
    def newest(behind_ms: int | None) -> Any:
        return lambda s: [b.behind_ms for b in batches(s, "clicks")][-1:] == [behind_ms]

    tell(data, behind_ms=9000, shards=4, lost=0)
    # On a busy machine a program takes its time until its first query.
    driver.wait(lambda s: told(s.queries, "clicks") == (9000, 4, 0), "the query tells", 240)
    driver.wait(newest(9000), "a batch as late as that")
    tell(data, behind_ms=None, shards=5, lost=2)
    seen = driver.wait(lambda s: told(s.queries, "clicks") == (None, 5, 2), "it tells anew")
    assert newest(None)(seen)
    # A report is not taken for a count of records.
    assert {q.backlog_records for q in seen.queries if q.name == "clicks"} == {None}


def test_system_properties_bring_what_the_sources_of_dstreams_tell(
    driver: Driver, data: Path
) -> None:
    tell(data, behind_ms=0, shards=7, lost=0)
    driver.wait(lambda s: told(s.queries, "dstream") == (0, 5, 1), "the graph tells", 240)
    driver.wait(lambda s: s.source_shards == 5 + 7, "the shards of all sources")
    driver.wait(lambda s: [b.behind_ms for b in batches(s, "dstream")][-1:] == [0], "its batches")


def test_live_limits_reach_the_source(driver: Driver) -> None:
    assert driver.status().rates == {}
    answer = put(driver, {"clicks": {"maxRecordsPerTrigger": 7, "maxSpanPerTrigger": 1.5}})
    assert answer.status_code == 200, answer.text
    limits = {"clicks": {"maxRecordsPerTrigger": 7, "maxSpanPerTrigger": 1.5}}
    assert answer.json()["rates"] == driver.status().rates == limits

    def newest(records: int) -> Any:
        return lambda s: [b.records for b in batches(s, "clicks")][-1:] == [records]

    driver.wait(newest(7), "batches of 7 records", 240)
    assert put(driver, {"clicks": {"maxRecordsPerTrigger": None}}).status_code == 200
    assert driver.status().rates == {"clicks": {"maxSpanPerTrigger": 1.5}}
    driver.wait(newest(1), "batches of one record again")


def test_a_request_for_another_epoch_or_that_makes_no_sense_changes_nothing(
    driver: Driver,
) -> None:
    before = {"clicks": {"maxSpanPerTrigger": 1.5}}
    assert put(driver, before).status_code == 200
    stale = put(driver, {"clicks": None}, EPOCH - 1)
    assert (stale.status_code, stale.json()["epoch"]) == (409, EPOCH)
    wrong = put(driver, {"clicks": {"maxBytesPerTrigger": -1}})
    assert wrong.status_code == 400
    assert wrong.json()["error"].startswith("rates.clicks.maxBytesPerTrigger: -1: must be")
    assert driver.status().rates == before


def test_while_a_query_finds_nothing_its_lag_is_told_all_the_same(
    driver: Driver, data: Path
) -> None:
    tell(data, behind_ms=9000, shards=4, lost=0)
    driver.wait(lambda s: told(s.queries, "clicks") == (9000, 4, 0), "the query is behind", 240)
    tell(data, behind_ms=40, shards=4, lost=0)
    (data / "quiet").touch()
    driver.wait(lambda s: told(s.queries, "clicks") == (40, 4, 0), "it is not any more")
    tell(data, behind_ms=0, shards=4, lost=3)
    seen = driver.wait(lambda s: told(s.queries, "clicks") == (0, 4, 3), "it is at the tip")
    assert batches(seen, "clicks")[-1].records == 0


def test_nothing_is_left_of_the_limits_when_it_has_ended(driver: Driver, data: Path) -> None:
    driver.wait(lambda s: told(s.queries, "clicks") and told(s.queries, "dstream"), "both run", 240)
    limits = driver.folder / "rates.json"  # beside the announcement
    assert limits.exists()
    # A program that got another JVM than the one that the driver started knows it by this.
    assert f"the JVM knows {limits}" in driver.log()
    driver.stop()
    assert driver.exit_code() == 0
    assert "the program has ended by itself" in driver.log()
    assert not limits.exists()
