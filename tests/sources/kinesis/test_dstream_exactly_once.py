"""Exactly once, and at most once, by positions that a program of DStreams keeps, through kills."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.streaming import StreamingContext

from dagster_sparkscale.sources.kinesis import kinesis_direct_stream
from tests.sources.kinesis.delivered import row
from tests.sources.kinesis.processes import running
from tests.sources.kinesis.programs import dstream_table
from tests.sources.kinesis.programs.dstream_table import Table
from tests.sources.kinesis.stream import Stream
from tests.sources.kinesis.structured import ONE
from tests.waiting import wait_for

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:DStream is deprecated"),
]
PROGRAM = Path(dstream_table.__file__)
AT_A_TIME = 20
"""Records of a batch."""


def killed(kinesis: Stream, url: str, table: Table, when: str, hang: str) -> None:
    """Run the program until it hangs in its second batch with records, and kill it there."""
    hangs = Path(f"{table.path}.hangs")
    hangs.unlink(missing_ok=True)
    log = Path(f"{table.path}.log")
    arguments = [url, kinesis.name, table.path, when, hang]
    with running(PROGRAM, arguments, log) as process:

        def look() -> bool:
            assert process.poll() is None, log.read_text(errors="replace")[-5000:]
            return hangs.exists()

        wait_for(f"the program to hang {hang} a batch", look, 200)


def finish(
    spark: SparkContext, kinesis: Stream, url: str, table: Table, done: Callable[[], bool]
) -> None:
    """Go on in this process from where the table ends."""
    ssc = StreamingContext(spark, 0.3)
    try:
        options = dstream_table.options(url, table)
        stream = kinesis_direct_stream(ssc, streamName=kinesis.name, **options)
        stream.foreachRDD(table.into(stream))
        ssc.start()
        wait_for("the rest", done)
        ssc.stop(stopSparkContext=False, stopGraceFully=True)
    finally:
        ssc.stop(stopSparkContext=False, stopGraceFully=False)


@pytest.mark.clusters
@ONE
def test_a_position_that_is_kept_with_the_results_makes_them_exactly_once(
    session: SparkSession, stream: Callable[..., Stream], emulator: Any, tmp_path: Path
) -> None:
    """Killed within a transaction, and killed right after one, before the stream knows of it."""
    kinesis, table = stream(2), Table(str(tmp_path / "table"))
    kinesis.put(100)
    killed(kinesis, emulator.url, table, "with", "in")
    assert 0 < len(table.rows()) <= AT_A_TIME
    kinesis.split(kinesis.open_shards()[0].id)
    kinesis.put(100)
    before = len(table.rows())
    killed(kinesis, emulator.url, table, "with", "after")
    assert len(table.rows()) > before
    finish(
        session.sparkContext,
        *(kinesis, emulator.url, table),
        lambda: len(table.rows()) >= kinesis.total,
    )
    kinesis.assert_complete([row(each) for each in table.rows()])


@pytest.mark.clusters
@ONE
def test_a_position_that_is_kept_before_the_results_makes_them_at_most_once(
    session: SparkSession, stream: Callable[..., Stream], emulator: Any, tmp_path: Path
) -> None:
    kinesis, table = stream(1), Table(str(tmp_path / "table"), "before")
    kinesis.put(100)
    killed(kinesis, emulator.url, table, "before", "in")
    written, reached = len(table.rows()), table.position()
    kinesis.put(10, keys=["last"])

    def last_is_there() -> bool:
        return ("last", 9) in [row(each) for each in table.rows()]

    finish(session.sparkContext, kinesis, emulator.url, table, last_is_there)
    assert table.position() != reached
    rows = [row(each) for each in table.rows()]
    assert len(rows) == len(set(rows)), "a record came twice"
    # The batch in which it was killed does not come again.
    assert written == AT_A_TIME
    assert len(rows) == kinesis.total - AT_A_TIME
    assert [number for key, number in rows if key == "last"] == list(range(10))


@pytest.mark.clusters
@ONE
def test_positions_that_would_mislead_are_refused(
    session: SparkSession, stream: Callable[..., Stream], emulator: Any, tmp_path: Path
) -> None:
    kinesis, table = stream(1), Table(str(tmp_path / "table"))
    kinesis.put(10)
    ssc = StreamingContext(session.sparkContext, 0.3)
    try:
        options = dstream_table.options(emulator.url, table)
        store = str(tmp_path / "store")
        records = kinesis_direct_stream(ssc, streamName=kinesis.name, store=store, **options)
        records.foreachRDD(lambda time, rdd: print(records.positions_of(time)))
        ssc.start()
        with pytest.raises(Exception, match="the next start begins at what the store has"):
            ssc.awaitTerminationOrTimeout(60)
    finally:
        ssc.stop(stopSparkContext=False, stopGraceFully=False)
