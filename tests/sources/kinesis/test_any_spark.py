"""What of Kinesis a release of Spark can read, and the sentence for what it can't.

For `make test-spark`: where all of it can be read, other modules have more. DStreams are in
`test_dstream`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dagster_sparkscale.driver.spark.releases import TooOld
from dagster_sparkscale.sources import kinesis
from tests.releases import has
from tests.sources.kinesis.delivered import row
from tests.sources.kinesis.stream import Stream
from tests.sources.kinesis.structured import APART, ONE, Sink, run, settings, streamed

pytestmark = [pytest.mark.spark, *([APART] if has("4.2") else [])]
Make = Callable[..., Stream]


def test_it_can_be_registered_and_once_more(session: SparkSession) -> None:
    if not has("4.0"):
        with pytest.raises(TooOld, match=r"needs Spark 4\.0 \(4\.2 for streaming.*\) or newer; th"):
            kinesis.register(session)
        return
    for _ in range(2):
        kinesis.register(session)


@ONE
def test_batches_are_read(session: SparkSession, stream: Make, emulator: Any) -> None:
    if not has("4.0"):
        pytest.skip("it says so when it is registered")
    made = stream(2)
    made.put(100)
    given = settings(made.name, emulator.url)
    frame = session.read.format("kinesis-direct").options(**given).load()
    made.assert_complete([row(bytes(each.data)) for each in frame.collect()])


@ONE
def test_a_query_streams_or_is_told_why_not(
    session: SparkSession, stream: Make, emulator: Any, tmp_path: Path
) -> None:
    if not has("4.0"):
        pytest.skip("it says so when it is registered")
    made, sink = stream(2), Sink()
    made.put(100)
    if has("4.2"):
        run(streamed(session, made, emulator.url), sink, tmp_path)
        made.assert_complete(sink.rows)
        return
    with pytest.raises(Exception, match=r"in a streaming query needs Spark 4\.2 or newer; this is"):
        run(streamed(session, made, emulator.url), sink, tmp_path)
