"""`readStream` on a real Spark and both emulators: what goes in comes out, once and in order."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import SparkSession

from tests.sources.kinesis.delivered import Row, row
from tests.sources.kinesis.reading import read_shard, read_stream, wait_until_past
from tests.sources.kinesis.stream import Stream
from tests.sources.kinesis.structured import (
    APART,
    ONE,
    SECOND_APART,
    Sink,
    failure,
    run,
    running,
    settings,
    streamed,
    told,
    until,
)

pytestmark = pytest.mark.spark
Make = Callable[..., Stream]


def test_a_split_and_a_merge_while_a_query_runs(
    session: SparkSession, stream: Make, emulator: Any, tmp_path: Path
) -> None:
    made = stream(2)
    sink = Sink()
    with running(streamed(session, made, emulator.url), sink, tmp_path / "checkpoint") as query:

        def comes_from(shard: str) -> None:
            until(query, f"rows of {shard}", lambda: any(r.shardId == shard for r in sink.all))

        # Not faster: where the machine is busy, this takes long, and what an emulator needs for a
        # call grows with what its stream holds, until it answers none in time.
        with made.writing(40):
            until(query, "rows", lambda: len(sink) > 50)
            _, upper = made.split(made.open_shards()[0].id)
            comes_from(upper)
            merged = made.merge(upper, made.open_shards()[-1].id)
            comes_from(merged)
            made.split(merged)
        until(query, "all rows", lambda: len(sink) >= made.total)
    made.assert_complete(sink.rows)
    assert len(sink.batches) > 3


@SECOND_APART
def test_a_row_has_all_there_is_to_know_of_a_record(
    session: SparkSession, stream: Make, emulator: Any, tmp_path: Path
) -> None:
    made = stream(2)
    made.put(40)
    sink = Sink()
    run(streamed(session, made, emulator.url), sink, tmp_path)
    wanted = {}
    for shard in made.shards():
        for record in read_shard(made.client, made.name, shard.id):
            wanted[record["SequenceNumber"]] = (
                record["Data"],
                record["PartitionKey"],
                None,
                record["ApproximateArrivalTimestamp"].astimezone(UTC),
                shard.id,
                made.name,
            )
    assert len(wanted) == 40
    # Spark gives naive times, in the local time zone.
    got = {
        each.sequenceNumber: (
            bytes(each.data),
            each.partitionKey,
            each.subSequenceNumber,
            each.approximateArrivalTimestamp.astimezone(UTC),
            each.shardId,
            each.streamName,
        )
        for each in sink.all
    }
    assert got == wanted


@APART
def test_a_batch_that_failed_is_repeated_with_the_same_rows(
    session: SparkSession, stream: Make, emulator: Any, tmp_path: Path
) -> None:
    made = stream(2)
    verdicts = iter([True, False, False, True])
    sink = Sink(fail=lambda: next(verdicts, False))
    frame = streamed(session, made, emulator.url, maxRecordsPerTrigger=60)
    made.put(120)
    # More is written between an attempt and the next one; it must not get into the batch.
    for _ in range(2):
        with running(frame, sink, tmp_path) as query:
            assert "the sink fails at batch" in failure(query)
        made.put_around(80, lambda: made.split(made.open_shards()[0].id))
    run(frame, sink, tmp_path)
    assert len(sink.again) == 2
    for number, before in sink.again:
        assert before and sink.batches[number] == before
    made.assert_complete(sink.rows)


@APART
def test_available_now_takes_what_is_there_and_the_next_run_what_is_new(
    session: SparkSession, stream: Make, emulator: Any, tmp_path: Path
) -> None:
    made = stream(2)
    sink = Sink()
    made.put(100)
    made.put_around(100, lambda: made.split(made.open_shards()[0].id))
    made.put_around(100, lambda: made.merge(*(shard.id for shard in made.open_shards()[:2])))
    frame = streamed(session, made, emulator.url, maxRecordsPerTrigger=100)
    with made.writing(100):  # it ends although there is always something new
        before = made.total
        run(frame, sink, tmp_path)
    first = len(sink)
    assert first >= before
    assert len(sink.batches) > 2
    made.put_around(50, lambda: made.split(made.open_shards()[0].id))
    assert made.total > first
    run(frame, sink, tmp_path)
    made.assert_complete(sink.rows)
    count = len(sink)
    run(frame, sink, tmp_path)
    assert len(sink) == count == made.total


@ONE
def test_once_takes_all_there_is_in_one_batch_whatever_the_limits_children_behind_their_parents(
    session: SparkSession, stream: Make, emulator: Any, tmp_path: Path
) -> None:
    made = stream(2)
    sink = Sink()
    frame = streamed(session, made, emulator.url, maxRecordsPerTrigger=10)
    for number in range(2):
        made.put_around(100, lambda: made.split(made.open_shards()[0].id))
        made.put_around(100, lambda: made.merge(*(shard.id for shard in made.open_shards()[:2])))
        run(frame, sink, tmp_path, once=True)
        assert len(sink.batches) == number + 1
        made.assert_complete(sink.rows)


# The other one would take minutes for so many records, and looks for an end by its time.
@APART
@pytest.mark.parametrize("emulator", ["kinesalite"], indirect=True)
@pytest.mark.parametrize("trigger", ["availableNow", "once"])
def test_all_there_is_is_one_batch_where_its_end_is_found_by_reading_on(
    session: SparkSession, stream: Make, emulator: Any, tmp_path: Path, trigger: str
) -> None:
    made = stream()
    made.put(25_000)
    sink = Sink()
    run(streamed(session, made, emulator.url), sink, tmp_path, **{trigger: True})
    made.assert_complete(sink.rows)
    assert len([batch for batch in sink.batches.values() if batch]) == 1


@APART
@ONE
@pytest.mark.parametrize("trigger", ["availableNow", "once", "processingTime"])
def test_latest_takes_nothing_that_was_there_and_all_that_comes(
    session: SparkSession, stream: Make, emulator: Any, tmp_path: Path, trigger: str
) -> None:
    made = stream(2)
    made.client.put_record(StreamName=made.name, Data=b"old", PartitionKey="old")
    wait_until_past(made)
    sink = Sink()
    frame = streamed(session, made, emulator.url, startingPosition=None)
    if trigger == "processingTime":
        with running(frame, sink, tmp_path) as query:
            until(query, "the first batch", lambda: (tmp_path / "commits" / "0").exists())
    else:
        run(frame, sink, tmp_path, **{trigger: True})
    assert len(sink) == 0
    made.put_around(60, lambda: made.split(made.open_shards()[0].id))
    run(frame, sink, tmp_path)
    made.assert_complete(sink.rows)


@ONE
def test_latest_is_kept_before_anything_is_read(
    session: SparkSession, stream: Make, emulator: Any, tmp_path: Path
) -> None:
    """The first run of Trigger.Once keeps where it began, and the second one takes the rest."""
    made = stream(2)
    sink = Sink()
    frame = streamed(session, made, emulator.url, startingPosition="latest")
    with made.writing(50):
        run(frame, sink, tmp_path, once=True)
    assert len(sink) == 0
    began = json.loads((tmp_path / "offsets" / "0").read_text().splitlines()[-1])["from"] / 1000
    made.put(10)
    run(frame, sink, tmp_path, once=True)
    expected = [
        row(each["Data"])
        for each in read_stream(made)
        if each["ApproximateArrivalTimestamp"].timestamp() >= began
    ]
    assert len(expected) >= 10
    assert sorted(sink.rows) == sorted(expected)


@ONE
def test_it_begins_where_it_is_told_to(
    session: SparkSession, stream: Make, emulator: Any, tmp_path: Path
) -> None:
    made = stream(2)
    for _ in range(6):
        made.put(10)
    one, other = ([*read_shard(made.client, made.name, s.id)] for s in made.shards())
    everything = read_stream(made)

    def rows(position: Any) -> list[Row]:
        sink = Sink()
        checkpoint = tmp_path / str(len(list(tmp_path.iterdir())))
        run(streamed(session, made, emulator.url, startingPosition=position), sink, checkpoint)
        return sorted(sink.rows)

    def wanted(records: list[dict[str, Any]]) -> list[Row]:
        return sorted(row(record["Data"]) for record in records)

    shards = [shard.id for shard in made.shards()]
    places = {shards[0]: one[9]["SequenceNumber"], shards[1]: {"at": other[5]["SequenceNumber"]}}
    assert rows(json.dumps(places)) == wanted(one[10:] + other[5:])
    moment = everything[len(everything) // 2]["ApproximateArrivalTimestamp"]
    later = [each for each in everything if each["ApproximateArrivalTimestamp"] >= moment]
    assert 0 < len(later) < len(everything)
    assert rows(moment.astimezone(UTC).isoformat()) == wanted(later)


@APART
@ONE
def test_a_position_that_makes_no_sense_is_refused(
    session: SparkSession, stream: Make, emulator: Any, tmp_path: Path
) -> None:
    made = stream(2)
    shard = "shardId-{:012d}".format
    child, _ = made.split(shard(0))
    oldest = "trim_horizon"
    for number, (position, said) in enumerate(
        (
            ({shard(0): "1" * 20, shard(7): "1"}, "which the stream has not"),
            ({shard(0): oldest}, f"does not say where to begin in {shard(1)}"),
            (
                {shard(0): oldest, shard(1): oldest, child: oldest},
                f"names {child} and {shard(0)}, which it descends from",
            ),
        )
    ):
        frame = streamed(session, made, emulator.url, startingPosition=json.dumps(position))
        with running(frame, Sink(), tmp_path / str(number)) as query:
            assert said in failure(query)


@APART
@ONE
def test_the_checkpoint_of_another_stream_is_refused(
    session: SparkSession, stream: Make, emulator: Any, tmp_path: Path
) -> None:
    made, other = stream(), stream()
    made.put(10)
    run(streamed(session, made, emulator.url), Sink(), tmp_path)
    sink = Sink()
    with running(streamed(session, other, emulator.url), sink, tmp_path) as query:
        said = failure(query)
    assert f"the checkpoint is of the stream '{made.name}'" in said
    assert "a checkpoint location of its own" in said
    assert len(sink) == 0


def test_wrong_options_are_refused_at_load(session: SparkSession) -> None:
    wrong = settings("clicks", "http://127.0.0.1:1", failOnDatLoss="true", maxRecordsPerTrigger=0)
    with pytest.raises((AnalysisException, PythonException)) as raised:
        session.readStream.format("kinesis-direct").options(**wrong).load()
    assert "did you mean failOnDataLoss?" in str(raised.value)
    assert "maxRecordsPerTrigger: '0' must be a whole number above 0" in str(raised.value)
    with pytest.raises((AnalysisException, PythonException), match="streamName: is missing"):
        session.read.format("kinesis-direct").load()


def test_a_streaming_query_has_no_end(session: SparkSession, tmp_path: Path) -> None:
    given = settings("clicks", "http://127.0.0.1:1", endingPosition="latest")
    frame = session.readStream.format("kinesis-direct").options(**given).load()
    with (
        pytest.raises(Exception, match="endingPosition: is for batch reads"),
        running(frame, Sink(), tmp_path) as query,
    ):
        raise AssertionError(failure(query))


@ONE
def test_a_stream_that_is_not_there_is_an_error_that_says_so(
    session: SparkSession, emulator: Any, tmp_path: Path
) -> None:
    frame = (
        session.readStream.format("kinesis-direct")
        .options(**settings("nobody-made-this", emulator.url))
        .load()
    )
    with running(frame, Sink(), tmp_path) as query:
        said = failure(query)
    assert "there is no stream 'nobody-made-this'" in said
    assert "streamName, region and endpointUrl" in said


@SECOND_APART
def test_records_put_together_by_the_producer_library_are_split(
    session: SparkSession, stream: Make, emulator: Any, tmp_path: Path
) -> None:
    made = stream(2)
    made.put(40)
    together = made.put_aggregated(200, each=30)
    made.put_around(40, lambda: made.split(made.open_shards()[0].id))
    together += made.put_aggregated(200, each=30)
    records = 80 + together
    sink = Sink()
    frame = streamed(session, made, emulator.url, maxRecordsPerTrigger=60)
    run(frame, sink, tmp_path / "split")
    made.assert_complete(sink.rows)
    places: dict[str, list[Any]] = {}
    for each in sink.all:
        assert each.partitionKey == row(bytes(each.data))[0]
        places.setdefault(each.sequenceNumber, []).append(each.subSequenceNumber)
    assert len(places) == records
    alone = [numbers for numbers in places.values() if numbers == [None]]
    assert len(alone) == 80
    for numbers in places.values():
        assert numbers == [None] or numbers == list(range(len(numbers)))
    whole = Sink()
    run(streamed(session, made, emulator.url, deaggregate="false"), whole, tmp_path / "whole")
    assert len(whole) == records
    assert all(each.subSequenceNumber is None for each in whole.all)


@ONE
def test_what_only_looks_aggregated_is_delivered_as_it_is(
    session: SparkSession, stream: Make, emulator: Any, tmp_path: Path
) -> None:
    made = stream()
    magic = b"\xf3\x89\x9a\xc2"
    datas = [
        magic,
        magic + b"x" * 16,
        magic + b"not what the digest is of" + b"0" * 16,
        b"\xf3",
        b"y",
    ]
    for data in datas:
        made.client.put_record(StreamName=made.name, Data=data, PartitionKey="a key")
    sink = Sink()
    run(streamed(session, made, emulator.url), sink, tmp_path)
    assert [bytes(each.data) for each in sink.all] == datas
    assert {(each.partitionKey, each.subSequenceNumber) for each in sink.all} == {("a key", None)}


@SECOND_APART
def test_the_progress_says_how_far_behind_the_stream_is(
    session: SparkSession, stream: Make, emulator: Any, tmp_path: Path
) -> None:
    made = stream(2)
    made.put(160)
    sink = Sink()
    began = datetime.now(UTC)
    frame = streamed(session, made, emulator.url, maxRecordsPerTrigger=20)
    with running(frame, sink, tmp_path) as query:
        first = until(query, "a lag", lambda: told(query).get("behind_ms"))
        assert 0 < first < (datetime.now(UTC) - began).total_seconds() * 1000 + 60_000
        assert told(query)["shards"] == 2
        until(query, "all rows", lambda: len(sink) >= made.total)
        until(query, "no more lag", lambda: told(query)["behind_ms"] == 0)
        assert told(query) == {
            "v": 1,
            "stream": made.name,
            "behind_ms": 0,
            "shards": 2,
            "lost": 0,
            "limit": 20,
        }
    made.assert_complete(sink.rows)
