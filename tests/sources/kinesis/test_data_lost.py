"""Data that was trimmed before it was read: an error, or counted; never passed over in silence."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dagster_sparkscale.sources.kinesis.planner import SETTLE_MS
from dev.kinesis import create_stream
from tests.sources.kinesis.delivered import Row, row
from tests.sources.kinesis.proxy import FaultProxy
from tests.sources.kinesis.reading import read_shard, wait_until_past
from tests.sources.kinesis.stream import Stream
from tests.sources.kinesis.structured import (
    APART,
    ONE,
    SECOND_APART,
    Sink,
    failure,
    run,
    running,
    source_progress,
    streamed,
    told,
)

pytestmark = pytest.mark.spark
Make = Callable[..., Stream]
SHORT_S = 0.1
"""A retention that every position has outlived by the time it is looked at again."""


def trim(proxy: FaultProxy, stream: Stream, shard: str, keep: int) -> list[Row]:
    """Trim all but the newest `keep` records of a shard; returns those."""
    records = read_shard(stream.client, stream.name, shard)
    proxy.trim(shard, records[-keep]["SequenceNumber"])
    return [row(record["Data"]) for record in records[-keep:]]


@APART
def test_what_was_trimmed_while_the_query_was_down(
    session: SparkSession, stream: Make, proxy: FaultProxy, tmp_path: Path
) -> None:
    made = stream(2)
    sink = Sink()
    frame = streamed(session, made, proxy.url)
    made.put(40)
    run(frame, sink, tmp_path)
    proxy.retention(SHORT_S)
    # Longer than what is kept, but what was read last is still there: nothing was missed.
    made.put(40)
    run(frame, sink, tmp_path)
    made.assert_complete(sink.rows)

    made.put(40)
    first, other = (shard.id for shard in made.shards())
    kept = trim(proxy, made, first, keep=5)
    with running(frame, sink, tmp_path) as query:
        error = failure(query)
    assert f"data of {first} of {made.name} has been trimmed before it was read" in error
    assert "set the option failOnDataLoss to false" in error
    assert len(sink) == 80

    query = run(streamed(session, made, proxy.url, failOnDataLoss="false"), sink, tmp_path)
    assert told(query)["lost"] == 1
    assert source_progress(query)["endOffset"]["lost"] == 1
    later = sink.all[80:]
    assert [row(bytes(each.data)) for each in later if each.shardId == first] == kept
    whole = read_shard(made.client, made.name, other)
    of_other = [row(bytes(each.data)) for each in sink.all if each.shardId == other]
    assert of_other == [row(record["Data"]) for record in whole]
    # It has gone on, so failOnDataLoss may be set again, and the count stays.
    made.put(10)
    query = run(frame, sink, tmp_path)
    assert told(query)["lost"] == 1
    assert len(sink) == 80 + len(later) + 10


@APART
@ONE
def test_a_start_by_a_sequence_number_that_has_been_trimmed(
    session: SparkSession, stream: Make, proxy: FaultProxy, tmp_path: Path
) -> None:
    made = stream()
    made.put(40)
    (shard,) = (shard.id for shard in made.shards())
    gone = read_shard(made.client, made.name, shard)[9]["SequenceNumber"]
    kept = trim(proxy, made, shard, keep=5)
    start = json.dumps({shard: gone})
    frame = streamed(session, made, proxy.url, startingPosition=start)
    with running(frame, Sink(), tmp_path / "strict") as query:
        error = failure(query)
    assert f"{shard} has no record {gone} any more" in error
    assert "set the option failOnDataLoss to false" in error
    frame = streamed(session, made, proxy.url, startingPosition=start, failOnDataLoss="false")
    sink = Sink()
    query = run(frame, sink, tmp_path / "lenient")
    assert sink.rows == kept
    assert told(query)["lost"] == 1


@ONE
def test_a_parent_that_went_before_it_was_read(
    session: SparkSession, stream: Make, proxy: FaultProxy, tmp_path: Path
) -> None:
    made = stream()
    sink = Sink()
    frame = streamed(session, made, proxy.url)
    made.put(20)
    run(frame, sink, tmp_path)
    (parent,) = made.open_shards()
    made.put_around(40, lambda: made.split(parent.id))
    proxy.expire(parent.id)
    with running(frame, sink, tmp_path) as query:
        error = failure(query)
    assert f"{parent.id} of {made.name} is gone before it was read" in error
    assert "failOnDataLoss" in error
    query = run(streamed(session, made, proxy.url, failOnDataLoss="false"), sink, tmp_path)
    assert told(query)["lost"] == 1
    assert {each.shardId for each in sink.all[20:]} == {s.id for s in made.open_shards()}
    assert len(sink) == 40


@APART
@ONE
def test_a_parent_that_was_read_to_its_end_may_go(
    session: SparkSession, stream: Make, proxy: FaultProxy, tmp_path: Path
) -> None:
    made = stream()
    sink = Sink()
    frame = streamed(session, made, proxy.url)
    (parent,) = made.open_shards()
    made.put_around(40, lambda: made.split(parent.id))
    run(frame, sink, tmp_path)
    proxy.expire(parent.id)
    made.put(40)
    query = run(frame, sink, tmp_path)
    made.assert_complete(sink.rows)
    assert told(query)["lost"] == 0
    assert parent.id not in source_progress(query)["endOffset"]["shards"]


@APART
@ONE
@pytest.mark.parametrize("keep", [20, 1], ids=["the middle", "all but the last"])
def test_what_is_trimmed_between_the_plan_and_its_reading(
    session: SparkSession, stream: Make, proxy: FaultProxy, tmp_path: Path, keep: int
) -> None:
    made = stream()
    (shard,) = (shard.id for shard in made.shards())
    sink = Sink()
    # The proxy goes through trimmed records one by one where one is asked for.
    frame, careless = (
        streamed(session, made, proxy.url, readTimeout="20s", failOnDataLoss=fail)
        for fail in ("true", "false")
    )
    made.put(10)
    run(frame, sink, tmp_path)
    proxy.retention(SHORT_S)
    made.put(60, size=20_000)  # the plan carries some of them, not all
    # Of records that came just now it plans no more than it has seen.
    wait_until_past(made, SETTLE_MS / 1000)
    kept: list[Row] = []
    sink.before = lambda: kept.extend(trim(proxy, made, shard, keep) if not kept else [])
    with running(frame, sink, tmp_path) as query:
        error = failure(query)
    assert kept and "data has been trimmed while it was being read" in error
    assert "failOnDataLoss to false" in error
    # The batch is repeated, and what it began behind is gone as well by now.
    with running(frame, sink, tmp_path) as query:
        error = failure(query)
    assert f"data of {shard} of {made.name} has been trimmed before it was read" in error
    assert len(sink) == 10
    query = run(careless, sink, tmp_path)
    assert sink.rows[10:] == kept
    assert told(query)["lost"] == 1


@SECOND_APART
def test_a_stream_that_was_made_again_under_its_name(
    session: SparkSession, stream: Make, emulator: Any, tmp_path: Path
) -> None:
    made = stream(2)
    sink = Sink()
    frame = streamed(session, made, emulator.url)
    made.put(20)
    run(frame, sink, tmp_path)
    made.client.delete_stream(StreamName=made.name)
    made.client.get_waiter("stream_not_exists").wait(
        StreamName=made.name, WaiterConfig={"Delay": 1, "MaxAttempts": 30}
    )
    create_stream(made.client, made.name, 2)
    Stream(made.client, made.name).put(20)
    with running(frame, sink, tmp_path) as query:
        error = failure(query)
    assert "made again under its old name" in error
    assert "new checkpoint location" in error
    assert len(sink) == 20
