"""The direct DStream on a real Spark and real emulators."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark import RDD, SparkContext
from pyspark.sql import SparkSession
from pyspark.streaming import StreamingContext

from dagster_sparkscale.sources.kinesis import kinesis_direct_stream
from dagster_sparkscale.sources.kinesis.dstream.commits import Patience
from dagster_sparkscale.sources.kinesis.dstream.stream import KinesisDirectDStream
from dagster_sparkscale.sources.kinesis.options import OptionsError
from dagster_sparkscale.sources.kinesis.records import KinesisRecord
from dev.kinesis import REGION
from tests.sources.kinesis.delivered import Row, row
from tests.sources.kinesis.dstream_killed import Program
from tests.sources.kinesis.proxy import FaultProxy
from tests.sources.kinesis.stream import Stream
from tests.sources.kinesis.structured import ONE, SECOND_APART
from tests.waiting import patience, wait_for

pytestmark = [
    pytest.mark.clusters,
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:DStream is deprecated"),
]
INTERVAL_S = 0.5
SECRET = "a-secret-nobody-may-see"
Make = Callable[..., Stream]


@pytest.fixture
def spark(session: SparkSession) -> SparkContext:
    """A SparkContext of this process with two cores."""
    return session.sparkContext


@contextmanager
def streaming(spark: SparkContext) -> Iterator[StreamingContext]:
    """A StreamingContext that is stopped in the end, at once if it still runs."""
    ssc = StreamingContext(spark, INTERVAL_S)
    try:
        yield ssc
    finally:
        ssc.stop(stopSparkContext=False, stopGraceFully=False)


def direct(ssc: StreamingContext, name: str, url: str, **more: Any) -> KinesisDirectDStream:
    settings = {
        "region": REGION,
        "endpointUrl": url,
        "awsAccessKeyId": "emulator",
        "awsSecretAccessKey": SECRET,
        "respectServiceLimits": False,
        "readTimeout": f"{patience(1) + 1:.1f}s",  # kinesalite never answers some calls
    }
    return kinesis_direct_stream(ssc, settings, streamName=name, **more)


class Sink:
    """Collects what an output operation gets."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.records: list[KinesisRecord] = []

    @property
    def take(self) -> Callable[["RDD[KinesisRecord]"], None]:
        """For `foreachRDD`, which looks into the code of what it is given."""
        return lambda rdd: self.add(rdd)

    def add(self, rdd: "RDD[KinesisRecord]") -> None:
        assert SECRET not in f"{rdd} {rdd.name()} {rdd.toDebugString()!r}"
        records = rdd.collect()
        self.records += records
        self.rows += [row(record.data) for record in records]

    def wait_for_shard(self, shard: str) -> None:
        wait_for(
            f"a record of {shard}", lambda: any(each.shard_id == shard for each in self.records)
        )

    def wait(self, stream: Stream, total: int | None = None) -> None:
        wanted = stream.total if total is None else total
        wait_for(f"{wanted} records", lambda: len(self.rows) >= wanted)


def reported(spark: SparkContext, name: str) -> dict[str, Any] | None:
    told = spark._jvm.java.lang.System.getProperty(f"spark.sparkscale.source.{name}")  # type: ignore[union-attr]
    return json.loads(told) if told is not None else None


def stop_gracefully(ssc: StreamingContext) -> None:
    ssc.stop(stopSparkContext=False, stopGraceFully=True)


def covers(committed: dict[str, Any], records: list[KinesisRecord]) -> bool:
    """Whether no record is behind the committed position of its shard."""
    shards = committed["shards"]
    last = {record.shard_id: record.sequence_number for record in records}
    return all(
        shards[shard]["k"] == "END" or int(shards[shard].get("s", "0")) >= int(sequence)
        for shard, sequence in last.items()
    )


@SECOND_APART
def test_records_in_are_records_out_across_a_split_and_a_merge(
    spark: SparkContext, stream: Make, emulator: Any, tmp_path: Path
) -> None:
    """With two output operations, a graceful stop, and a start that goes on from there."""
    kinesis, store = stream(2), f"file://{tmp_path}/positions"
    sink, again = Sink(), Sink()
    with streaming(spark) as ssc:
        records = direct(ssc, kinesis.name, emulator.url, store=store, startingPosition="earliest")
        records.foreachRDD(sink.take)
        records.map(lambda record: record).foreachRDD(again.take)
        ssc.start()
        with kinesis.writing(40):
            sink.wait_for_shard(kinesis.open_shards()[0].id)
            lower, upper = kinesis.split(kinesis.open_shards()[0].id)
            sink.wait_for_shard(lower)
            sink.wait_for_shard(upper)
            sink.wait_for_shard(kinesis.merge(lower, upper))
        sink.wait(kinesis)
        again.wait(kinesis)
        told = wait_for("the report", lambda: reported(spark, kinesis.name))
        assert told.keys() == {"v", "stream", "behind_ms", "shards", "lost"}
        assert told["stream"] == kinesis.name and told["shards"] >= 2 and told["lost"] == 0
        stop_gracefully(ssc)
        wait_for("no report", lambda: reported(spark, kinesis.name) is None)
        kinesis.assert_complete(sink.rows)
        kinesis.assert_complete(again.rows)
        assert covers(records.committed, sink.records)

    kinesis.put(50)
    with streaming(spark) as ssc:
        # What the store has goes before a starting position.
        following = direct(
            ssc, kinesis.name, emulator.url, store=store, startingPosition="earliest"
        )
        assert following.committed == records.committed
        following.foreachRDD(sink.take)
        ssc.start()
        sink.wait(kinesis)
        stop_gracefully(ssc)
    kinesis.assert_complete(sink.rows)


@pytest.mark.clusters
@ONE
def test_a_driver_that_is_killed_in_the_middle_of_a_batch_loses_nothing(
    spark: SparkContext, stream: Make, emulator: Any, tmp_path: Path
) -> None:
    """`soak_dstream_killed` kills one again and again, and executors too."""
    kinesis, sink = stream(2), Sink()
    program = Program(tmp_path, emulator.url, kinesis.name)
    kinesis.put(100)
    with program.running(hang_after=50) as process:
        program.wait(process, "50 rows", lambda: len(program.lines()) >= 50)
    kinesis.put_around(50, lambda: kinesis.split(kinesis.open_shards()[0].id))
    with streaming(spark) as ssc:
        records = direct(ssc, kinesis.name, emulator.url, store=f"file://{program.store}")
        records.foreachRDD(sink.take)
        ssc.start()
        sink.wait(kinesis)
        stop_gracefully(ssc)
    kinesis.assert_at_least_once([row(line[0]) for line in program.lines()] + sink.rows)
    kinesis.assert_complete(sink.rows)


@ONE
def test_a_failed_batch_is_not_committed_and_nothing_is_read_past_it(
    spark: SparkContext, stream: Make, emulator: Any, tmp_path: Path
) -> None:
    kinesis, store = stream(1), str(tmp_path / "positions")
    sink = Sink()
    kinesis.put(20)

    failed: list[bool] = []

    def fails_once(rdd: "RDD[KinesisRecord]") -> None:
        if sink.rows and not failed and not rdd.isEmpty():
            failed.append(True)
            # Not before other batches have become due.
            wait_for("more records", lambda: kinesis.total >= 20 + 3 * 100 * INTERVAL_S)
            raise RuntimeError("the sink is full")
        sink.add(rdd)

    with streaming(spark) as ssc:
        records = direct(ssc, kinesis.name, emulator.url, store=store, startingPosition="earliest")
        records.foreachRDD(fails_once)
        ssc.start()
        sink.wait(kinesis)
        wait_for("the first batch to be committed", lambda: covers(records.committed, sink.records))
        before = records.committed
        with kinesis.writing(100), pytest.raises(Exception, match="the sink is full"):
            ssc.awaitTerminationOrTimeout(60)
        wait_for("the context to stop", lambda: ssc._jssc.getState().toString() == "STOPPED")
        assert len(sink.rows) == 20
        assert records.committed == before
        wait_for("no report", lambda: reported(spark, kinesis.name) is None)

    with streaming(spark) as ssc:
        records = direct(ssc, kinesis.name, emulator.url, store=store)
        assert records.committed == before
        records.foreachRDD(sink.take)
        ssc.start()
        sink.wait(kinesis)
        stop_gracefully(ssc)
    kinesis.assert_complete(sink.rows)


@ONE
def test_a_start_from_sequence_numbers_and_from_what_was_committed(
    spark: SparkContext, stream: Make, emulator: Any
) -> None:
    kinesis, all_of_it, rest, more = stream(2), Sink(), Sink(), Sink()
    kinesis.put(40)
    kinesis.put_aggregated(40)
    earliest = datetime.now(UTC) - timedelta(minutes=5)
    with streaming(spark) as ssc:
        direct(ssc, kinesis.name, emulator.url, startingPosition=earliest.isoformat()).foreachRDD(
            all_of_it.take
        )
        ssc.start()
        all_of_it.wait(kinesis)
    places = {record.sub_sequence_number for record in all_of_it.records}
    assert {None, 0, 1} <= places
    for record in all_of_it.records:
        assert isinstance(record, KinesisRecord)
        assert record.partition_key == row(record.data)[0]
        assert earliest < record.arrival < datetime.now(UTC) + timedelta(minutes=5)

    read: dict[str, str] = {}
    behind: dict[str, list[Row]] = {}
    for record in all_of_it.records:
        # The first five of each shard have been read.
        if len(seen := behind.setdefault(record.shard_id, [])) < 5:
            read[record.shard_id] = record.sequence_number
        seen.append(row(record.data))
    expected = [each for seen in behind.values() for each in seen[5:]]
    with streaming(spark) as ssc:
        records = direct(ssc, kinesis.name, emulator.url, starting_positions=read)
        records.foreachRDD(rest.take)
        ssc.start()
        rest.wait(kinesis, len(expected))
        wait_for("all to be committed", lambda: covers(records.committed, rest.records))
        stop_gracefully(ssc)
    assert sorted(rest.rows) == sorted(expected)

    kinesis.put(10)
    kept = json.loads(json.dumps(records.committed))
    with streaming(spark) as ssc:
        direct(ssc, kinesis.name, emulator.url, starting_positions=kept).foreachRDD(more.take)
        ssc.start()
        more.wait(kinesis, 10)
        stop_gracefully(ssc)
    assert len(more.rows) == 10


@pytest.mark.clusters
@ONE
def test_windows_that_slide_by_several_batches(
    spark: SparkContext, stream: Make, emulator: Any
) -> None:
    """Most batch times have no job then; what was planned for them is committed all the same."""
    kinesis, sink = stream(1), Sink()
    with streaming(spark) as ssc:
        records = direct(ssc, kinesis.name, emulator.url, startingPosition="earliest")
        records.window(3 * INTERVAL_S, 3 * INTERVAL_S).foreachRDD(sink.take)
        ssc.start()
        for _ in range(2):
            kinesis.put(30)
            sink.wait(kinesis)
        wait_for("all to be committed", lambda: covers(records.committed, sink.records))
        stop_gracefully(ssc)
    kinesis.assert_complete(sink.rows)


@ONE
def test_an_outage_makes_batches_empty(
    spark: SparkContext, stream: Make, emulator: Any, proxy: FaultProxy
) -> None:
    kinesis, sink = stream(1), Sink()
    kinesis.put(10)
    with streaming(spark) as ssc:
        options = {"startingPosition": "earliest", "maxRetries": 0}
        direct(ssc, kinesis.name, proxy.url, **options).foreachRDD(sink.take)
        ssc.start()
        sink.wait(kinesis)
        outage = proxy.drop("ListShards", times=3)
        kinesis.put(10)
        wait_for("the end of the outage", lambda: outage.left == 0)
        sink.wait(kinesis)
        assert ssc.awaitTerminationOrTimeout(0) is False
        stop_gracefully(ssc)
    kinesis.assert_complete(sink.rows)


@ONE
def test_an_outage_that_does_not_end_is_an_error(
    spark: SparkContext,
    stream: Make,
    emulator: Any,
    proxy: FaultProxy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "dagster_sparkscale.sources.kinesis.dstream.stream.Patience", partial(Patience, 0.0)
    )
    kinesis, sink = stream(1), Sink()
    with streaming(spark) as ssc:
        direct(ssc, kinesis.name, proxy.url, maxRetries=0).foreachRDD(sink.take)
        proxy.drop("ListShards", times=1000)
        ssc.start()
        with pytest.raises(Exception, match="cannot be reached"):
            ssc.awaitTerminationOrTimeout(60)
        wait_for("the context to stop", lambda: ssc._jssc.getState().toString() == "STOPPED")


@ONE
def test_what_cannot_be_is_refused_before_it_starts(
    spark: SparkContext, stream: Make, emulator: Any, tmp_path: Path
) -> None:
    one, other = stream(1), stream(1)
    store = str(tmp_path / "positions")
    with streaming(spark) as ssc:
        make = partial(direct, ssc, one.name, emulator.url)
        with pytest.raises(OptionsError, match=r"maxRecordPerTrigger.*maxRecordsPerTrigger"):
            make(maxRecordPerTrigger=1)
        with pytest.raises(OptionsError, match="endingPosition"):
            make(endingPosition="latest")
        with pytest.raises(OptionsError, match="is given by starting_positions too"):
            make(startingPosition="latest", starting_positions={"shardId-000000000000": "1"})
        with pytest.raises(OptionsError, match="last sequence number"):
            make(starting_positions={"shardId-000000000000": 12})
        first = make(store=store)
        with pytest.raises(ValueError, match=f"starting_positions.*{one.name}"):
            direct(ssc, other.name, emulator.url, starting_positions=first.committed)
        with pytest.raises(ValueError, match=rf"{store}/0.*{one.name}"):
            direct(ssc, other.name, emulator.url, store=store)

        # Spark takes a checkpoint directory until the start.
        first.foreachRDD(Sink().take)
        ssc.checkpoint(str(tmp_path / "checkpoint"))
        with pytest.raises(ValueError, match="cannot be checkpointed"):
            make()
        with pytest.raises(Exception, match="cannot be checkpointed"):
            ssc.start()


def test_the_store_keeps_the_latest_and_refuses_a_second_writer(
    spark: SparkContext, tmp_path: Path
) -> None:
    from dagster_sparkscale.sources.kinesis.dstream.commit_files import (
        KEPT,
        CommitFiles,
        StoreError,
        StoreTaken,
    )
    from dagster_sparkscale.sources.kinesis.positions import Kind, Offset, Position

    folder = tmp_path / "a folder" / "positions"
    store = CommitFiles(spark, str(folder))
    assert store.load("s") is None
    offsets = [Offset("s", {"a": Position(Kind.AFTER, str(n))}) for n in range(KEPT + 5)]
    for offset in offsets:
        store.save(offset)
    again = CommitFiles(spark, str(folder))
    assert again.load("s") == offsets[-1]
    files = [name for name in os.listdir(folder) if not name.startswith(".")]
    assert sorted(map(int, files)) == list(range(5, KEPT + 5))
    store.save(offsets[0])
    with pytest.raises(StoreTaken, match="another program"):
        again.save(offsets[1])
    assert again.load("s") == offsets[0]

    (folder / "99").write_text("{")
    with pytest.raises(StoreError, match=r"/99 is not JSON"):
        CommitFiles(spark, str(folder)).load("s")
    with pytest.raises(StoreError, match="nothing://here cannot be opened"):
        CommitFiles(spark, "nothing://here")
