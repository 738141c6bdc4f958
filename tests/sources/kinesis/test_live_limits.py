"""Limits of a batch: those of the options, and those that change while a query runs."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from dagster_sparkscale.driver.batches.reports import input_of
from dagster_sparkscale.driver.settings import RATES_FILE
from dagster_sparkscale.sources import kinesis
from tests.sources.kinesis.stream import Stream
from tests.sources.kinesis.structured import ONE, Sink, run, running, streamed, until
from tests.waiting import wait_for

pytestmark = pytest.mark.spark
Make = Callable[..., Stream]
AT_ONCE = {"processingTime": "0 seconds"}


@pytest.fixture
def limit(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., None]]:
    """Writes the file of the agent. The source is told of it as it is in a driver (`Rates`)."""
    rates = tmp_path / "rates.json"

    def write(**content: Any) -> None:
        draft = tmp_path / "draft"
        draft.write_text(json.dumps(content))
        draft.rename(rates)

    with monkeypatch.context() as patch:
        patch.setitem(session.sparkContext.environment, RATES_FILE, str(rates))
        kinesis.register(session)
        yield write
    kinesis.register(session)


@ONE
def test_a_batch_has_no_more_than_the_limit_in_records(
    session: SparkSession, stream: Make, emulator: Any, tmp_path: Path
) -> None:
    made = stream(2)
    made.put(300)
    sink = Sink()
    run(streamed(session, made, emulator.url, maxRecordsPerTrigger=60), sink, tmp_path)
    made.assert_complete(sink.rows)
    assert max(len(batch) for batch in sink.batches.values()) <= 60
    assert len(sink.batches) <= 2 + 300 / 60 + 5


@pytest.mark.clusters
@ONE
def test_a_batch_has_about_the_limit_in_bytes(
    session: SparkSession, stream: Make, emulator: Any, tmp_path: Path
) -> None:
    made = stream()
    # As they come, a second of it has 20,000 bytes.
    with made.writing(20, size=1000):
        wait_for("some seconds of records", lambda: made.total >= 100)
    sink = Sink()
    run(streamed(session, made, emulator.url, maxBytesPerTrigger=25_000), sink, tmp_path)
    made.assert_complete(sink.rows)
    sizes = [sum(len(each.data) for each in batch) for batch in sink.batches.values()]
    assert max(sizes) < 80_000, sizes


@pytest.mark.clusters
@ONE
def test_batches_of_a_slow_sink_are_as_long_as_they_should_be(
    session: SparkSession, stream: Make, emulator: Any, tmp_path: Path
) -> None:
    """The sink takes 10 ms for a record, so that a second's work is 100 of them."""
    made = stream()
    sink = Sink()

    def slowly(frame: DataFrame, number: int) -> None:
        sink(frame, number)
        pause = len(sink.batches[number]) / 100
        if pause:
            time.sleep(pause)

    with made.writing(200):
        wait_for("some seconds of records", lambda: made.total >= 800)
    frame = streamed(session, made, emulator.url, targetBatchDuration="1s")
    with running(frame, slowly, tmp_path) as query:
        until(query, "all rows", lambda: len(sink) >= made.total)
    made.assert_complete(sink.rows)
    sizes = [len(batch) for batch in sink.batches.values() if batch]
    assert len(sizes) >= 4, sizes
    assert max(sizes[1:]) <= 400, sizes


@ONE
def test_a_limit_in_the_file_of_the_agent_is_in_force_from_the_next_batch_on(
    session: SparkSession,
    stream: Make,
    emulator: Any,
    tmp_path: Path,
    limit: Callable[..., None],
) -> None:
    made = stream()
    sink = Sink()
    limit(**{made.name: {"maxRecordsPerTrigger": 10}})
    made.put(600)
    frame = streamed(session, made, emulator.url, maxRecordsPerTrigger=10_000)

    def batches() -> list[int]:
        found = dict(sink.batches)
        return [len(found[number]) for number in sorted(found) if found[number]]

    with running(frame, sink, tmp_path / "checkpoint", **AT_ONCE) as query:
        until(query, "batches of 10", lambda: len(batches()) >= 3)
        limit(**{made.name: {"maxRecordsPerTrigger": 50}})
        until(query, "a batch of 50", lambda: 50 in batches())
        limit(**{made.name: {}})
        until(query, "all rows", lambda: len(sink) >= made.total)
    made.assert_complete(sink.rows)
    found = batches()
    assert set(found[:3]) == {10}
    assert max(found) > 50
    # Each limit held until the next one came.
    assert found.index(50) > max(n for n, size in enumerate(found) if size == 10)


@ONE
def test_a_limit_for_all_holds_from_the_first_batch_on_and_is_told_in_the_progress(
    session: SparkSession,
    stream: Make,
    emulator: Any,
    tmp_path: Path,
    limit: Callable[..., None],
) -> None:
    made = stream()
    sink = Sink()
    limit(**{"*": {"maxRecordsPerTrigger": 10, "estimated": True}})
    made.put(400)
    frame = streamed(session, made, emulator.url, maxRecordsPerTrigger=40)
    with running(frame, sink, tmp_path / "checkpoint", **AT_ONCE) as query:

        def batches() -> list[tuple[int, int | None]]:
            found = [
                input_of(source["latestOffset"], source["numInputRows"])
                for each in query.recentProgress
                for source in json.loads(each.json)["sources"]
            ]
            assert {each.source for each in found if each.tells} <= {made.name}
            return [(each.records, each.limit) for each in found if each.records]

        until(query, "batches of 10", lambda: len(batches()) >= 3)
        # The option is one more limit beside an estimate.
        limit(**{made.name: {"maxRecordsPerTrigger": 1000, "estimated": True}})
        until(query, "all rows", lambda: sum(records for records, _ in batches()) == 400)
        found = batches()
    made.assert_complete(sink.rows)
    assert set(found[:3]) == {(10, 10)}
    assert {most for _, most in found} == {10, 40}
    assert all(records <= (most or 0) for records, most in found)
