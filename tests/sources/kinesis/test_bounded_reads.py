"""`spark.read` on a real Spark and both emulators: everything between two points of a stream."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession

from tests.sources.kinesis.delivered import Row, row
from tests.sources.kinesis.proxy import FaultProxy
from tests.sources.kinesis.reading import read_shard, read_stream, wait_until_past
from tests.sources.kinesis.stream import Stream
from tests.sources.kinesis.structured import ONE, SECOND_APART, settings
from tests.waiting import wait_for

pytestmark = pytest.mark.spark
Make = Callable[..., Stream]
REFUSED = (AnalysisException, PythonException)


def loaded(session: SparkSession, stream: Stream, url: str, **more: Any) -> DataFrame:
    given = settings(stream.name, url, **{"startingPosition": None, **more})
    return session.read.format("kinesis-direct").options(**given).load()


def rows(frame: DataFrame) -> list[Row]:
    return [row(bytes(each.data)) for each in frame.collect()]


def wanted(records: list[dict[str, Any]]) -> list[Row]:
    return [row(record["Data"]) for record in records]


def later(stream: Stream) -> str:
    """A moment after what has been put so far, and before what is put next."""
    newest = max(each["ApproximateArrivalTimestamp"] for each in read_stream(stream))
    moment = newest.astimezone(UTC)
    wait_for("the clock to go on", lambda: (datetime.now(UTC) - moment).total_seconds() > 0.01)
    return datetime.fromtimestamp(moment.timestamp() + 0.005, UTC).isoformat()


@pytest.mark.clusters
def test_all_there_is_with_parents_and_children(
    session: SparkSession, stream: Make, emulator: Any
) -> None:
    made = stream(2)
    made.put(200, size=2000)
    made.put_around(200, lambda: made.split(made.open_shards()[0].id))
    made.put_around(200, lambda: made.merge(*(shard.id for shard in made.open_shards()[:2])))
    frame = loaded(session, made, emulator.url)
    made.assert_complete(rows(frame))
    # Spark may take a part of the columns.
    made.put(50)
    again = loaded(session, made, emulator.url)
    assert again.groupBy("shardId").count().agg({"count": "sum"}).first()[0] == made.total == 650


@SECOND_APART
def test_between_two_moments(session: SparkSession, stream: Make, emulator: Any) -> None:
    made = stream(2)
    made.put(30)
    begin = later(made)
    before = len(read_stream(made))
    made.put_around(60, lambda: made.split(made.open_shards()[0].id))
    end = later(made)
    middle = {row(each["Data"]) for each in read_stream(made)}
    made.put(30)
    after = loaded(session, made, emulator.url, startingPosition=begin)
    assert len(rows(after)) == made.total - before
    until = loaded(session, made, emulator.url, endingPosition=end)
    assert set(rows(until)) == middle and until.count() == len(middle)
    between = loaded(session, made, emulator.url, startingPosition=begin, endingPosition=end)
    assert sorted(rows(between)) == sorted(set(rows(after)) & middle)
    assert between.count() == 60


@ONE
def test_where_there_is_nothing_there_are_no_rows(
    session: SparkSession, stream: Make, emulator: Any
) -> None:
    made = stream()
    assert rows(loaded(session, made, emulator.url)) == []
    made.put(20)
    wait_until_past(made)
    assert loaded(session, made, emulator.url, startingPosition="latest").count() == 0


@ONE
def test_between_records_that_are_named(session: SparkSession, stream: Make, emulator: Any) -> None:
    made = stream(2)
    for _ in range(4):
        made.put(20)
    shards = [shard.id for shard in made.shards()]
    one, other = (read_shard(made.client, made.name, shard) for shard in shards)
    begin = {shards[0]: one[4]["SequenceNumber"], shards[1]: {"at": other[3]["SequenceNumber"]}}
    end = {shards[0]: one[19]["SequenceNumber"], shards[1]: {"at": other[11]["SequenceNumber"]}}
    frame = loaded(
        session,
        made,
        emulator.url,
        startingPosition=json.dumps(begin),
        endingPosition=json.dumps(end),
    )
    assert sorted(rows(frame)) == sorted(wanted(one[5:20] + other[3:11]))
    unknown = json.dumps({"shardId-000000000009": "1"})
    with pytest.raises(REFUSED, match="which the stream has not"):
        loaded(session, made, emulator.url, endingPosition=unknown).collect()
    assert rows(loaded(session, made, emulator.url, endingPosition="latest"))
    with pytest.raises(REFUSED, match="must not be trim_horizon"):
        loaded(session, made, emulator.url, endingPosition="trim_horizon")


@SECOND_APART
def test_an_end_that_is_no_record_of_its_shard_is_refused_at_planning(
    session: SparkSession, stream: Make, emulator: Any
) -> None:
    made = stream(2)
    made.put(20)
    one, other = (shard.id for shard in made.shards())
    stranger = read_shard(made.client, made.name, other)[3]["SequenceNumber"]
    for end in (stranger, {"at": str(int(stranger) + 1)}, "1"):
        frame = loaded(session, made, emulator.url, endingPosition=json.dumps({one: end}))
        with pytest.raises(REFUSED, match=f"endingPosition: {one} has no record"):
            frame.collect()


@ONE
def test_a_moment_before_what_is_kept_is_an_error_or_the_oldest_there_is(
    session: SparkSession, stream: Make, proxy: FaultProxy
) -> None:
    made = stream()
    made.put(20)
    proxy.retention(60)
    long_ago = datetime.fromtimestamp(datetime.now(UTC).timestamp() - 3600, UTC).isoformat()
    with pytest.raises(REFUSED, match="older than what the stream retains"):
        loaded(session, made, proxy.url, startingPosition=long_ago).collect()
    frame = loaded(session, made, proxy.url, startingPosition=long_ago, failOnDataLoss="false")
    made.assert_complete(rows(frame))
