"""The Kinesis source against loops of boto3 calls, and what it reads in vain.

`kinesis_bare` and `kinesis_fastest`: one shard of an emulator, full of small records, is read by a
streaming query into a sink that does nothing (its second batch; with the first one its processes
start), by a plain loop of boto3's get_records, and by the fastest loop boto3 and the standard
library allow: it lets the records past boto3's parser and puts them into Arrow, as the source does.
In turn, several times. Pages come from a cache, for the emulator is slower than any reader; and the
limits of the real service are not kept, for at 2 MiB a second and shard all would only wait.

The source parses JSON and base64 by libraries that are faster than the standard one. The same loop
with those libraries is in the details as `same_decoders`: it has no batch to plan, to hand over to
another process and to commit.

`kinesis_bytes_read`: while a writer writes and a query keeps up, what GetRecords returned in all,
by a proxy's count, for what was delivered.

`kinesis_catch_up`: see `kinesis_catch_up.py`.
"""

import json
import random
import statistics
import tempfile
import threading
import time
from binascii import a2b_base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
from pybase64 import b64decode

from benchmarks.figures import Figure
from benchmarks.kinesis_catch_up import catch_up
from benchmarks.kinesis_parts import page_cache, source, spark_session
from dev import kinesis as emulators
from tests.sources.kinesis.proxy import FaultProxy

RECORDS = 600_000
RECORD_BYTES = 200
REPETITIONS = 5
WARM_UPS = 2
PAGE = 10_000

SHARDS = 2
WRITTEN_PER_SECOND = 400
"""Records, in each shard."""
INTERVAL = 3.0
BATCHES = 15
"""In which the query keeps up; the first ones, while Spark warms up, do not count."""
LEFT_OUT = 3
PATIENCE = 300.0


def measure() -> list[Figure]:
    with (
        tempfile.TemporaryDirectory(prefix="sparkscale-bench-") as name,
        emulators.start("kinesalite", Path(name) / "emulator.log") as emulator,
        spark_session() as spark,
    ):
        return [
            *_throughput(spark, emulator, Path(name)),
            _bytes_read(spark, emulator, Path(name)),
            catch_up(spark, emulator, Path(name)),
        ]


def _throughput(spark: Any, emulator: emulators.Emulator, folder: Path) -> list[Figure]:
    client = emulator.client()
    emulators.create_stream(client, "full", 1)
    span = _fill(client, "full")
    with page_cache(emulator.url) as url:
        ways: dict[str, Callable[[], float]] = {
            "ours": lambda: _read_by_query(spark, url, folder, span),
            "bare": lambda: _read_by_loop(emulators.client(url)),
            "fastest": lambda: _read_past_the_parser(emulators.client(url), json.loads, a2b_base64),
            "same_decoders": lambda: _read_past_the_parser(
                emulators.client(url), orjson.loads, b64decode
            ),
        }
        rates: dict[str, list[float]] = {way: [] for way in ways}
        for number in range(REPETITIONS + WARM_UPS):
            for way, read in ways.items():
                rate = read()
                if number >= WARM_UPS:
                    rates[way].append(rate)
    typical = {way: statistics.median(each) for way, each in rates.items()}
    detail: dict[str, Any] = {
        "records": RECORDS,
        "record_bytes": RECORD_BYTES,
        "records_per_second": {way: [round(each) for each in of] for way, of in rates.items()},
        "mb_per_second": {
            way: round(rate * RECORD_BYTES / 1e6, 1) for way, rate in typical.items()
        },
    }
    detail["same_decoders"] = round(statistics.median(_ratios(rates, "same_decoders")), 3)
    figures = []
    for peer, goal in (("bare", 1.0), ("fastest", 0.85)):
        ratios = _ratios(rates, peer)
        figures.append(
            Figure(
                name=f"kinesis_{peer}",
                value=round(statistics.median(ratios), 3),
                unit="ratio of records/s",
                goal=goal,
                better="higher",
                detail={"ratios": [round(ratio, 3) for ratio in ratios], **detail},
            )
        )
    return figures


def _ratios(rates: dict[str, list[float]], peer: str) -> list[float]:
    return [mine / theirs for mine, theirs in zip(rates["ours"], rates[peer], strict=True)]


def _fill(client: Any, stream: str) -> int:
    """Put the records and, some seconds later, one more. Returns a span of time in milliseconds:
    one of it has half the records, two have all but that one."""
    data = [random.randbytes(RECORD_BYTES) for _ in range(500)]
    begin = time.time()
    for _ in range(RECORDS // 500):
        client.put_records(
            StreamName=stream,
            Records=[{"Data": each, "PartitionKey": f"{n % 50}"} for n, each in enumerate(data)],
        )
    took = time.time() - begin
    time.sleep(4)
    client.put_record(StreamName=stream, Data=b"the last one", PartitionKey="0")
    return round((took / 2 + 1) * 1000)


def _read_by_query(spark: Any, url: str, folder: Path, span_ms: int) -> float:
    """Records a second of the second batch."""
    rows = source(
        spark,
        url,
        "full",
        startingPosition="trim_horizon",
        maxSpanPerTrigger=f"{span_ms}ms",
        respectServiceLimits="false",
    )
    with tempfile.TemporaryDirectory(dir=folder) as checkpoint:
        query = rows.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        try:
            query.processAllAvailable()
            batches = [each for each in query.recentProgress if each["numInputRows"]]
        finally:
            query.stop()
    read = [int(each["numInputRows"]) for each in batches]
    if len(read) < 2 or sum(read[:2]) != RECORDS:
        raise RuntimeError(f"two batches should have {RECORDS} records, and had {read}")
    return read[1] / float(batches[1]["durationMs"]["triggerExecution"]) * 1000


def _read_by_loop(client: Any) -> float:
    return _timed(client, lambda page: len(page["Records"]))


def _read_past_the_parser(
    client: Any, parse: Callable[[bytes], Any], decode: Callable[[str], bytes]
) -> float:
    import pyarrow as pa

    def past(
        response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any
    ) -> None:
        customized_response_dict.update(parse(response_dict["body"]))
        response_dict["body"] = b"{}"

    def to_arrow(page: dict[str, Any]) -> int:
        records = page["Records"]
        batch = pa.RecordBatch.from_pydict(
            {
                "data": [decode(record["Data"]) for record in records],
                "partitionKey": [record["PartitionKey"] for record in records],
                "sequenceNumber": [record["SequenceNumber"] for record in records],
                "arrival": [record["ApproximateArrivalTimestamp"] for record in records],
            }
        )
        return int(batch.num_rows)

    client.meta.events.register("before-parse.kinesis.GetRecords", past)
    return _timed(client, to_arrow)


def _timed(client: Any, take: Callable[[dict[str, Any]], int]) -> float:
    """Records a second, reading half the stream page by page."""
    begin = time.perf_counter()
    shard = client.list_shards(StreamName="full")["Shards"][0]["ShardId"]
    iterator = client.get_shard_iterator(
        StreamName="full", ShardId=shard, ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    read = 0
    while read < RECORDS // 2:
        page = client.get_records(ShardIterator=iterator, Limit=PAGE)
        read += take(page)
        iterator = page["NextShardIterator"]
    return read / (time.perf_counter() - begin)


def _bytes_read(spark: Any, emulator: emulators.Emulator, folder: Path) -> Figure:
    from pyspark.sql.functions import col, length
    from pyspark.sql.functions import sum as total

    client = emulator.client()
    emulators.create_stream(client, "live", SHARDS)
    done = threading.Event()
    writer = threading.Thread(target=_write, args=(client, "live", done), daemon=True)
    delivered: list[int] = []
    read: list[int] = []
    calls: list[int] = []

    with FaultProxy(emulator.url) as proxy, tempfile.TemporaryDirectory(dir=folder) as checkpoint:

        def take(batch: Any, _number: int) -> None:
            size = total(length(col("data")) + length(col("partitionKey")))
            delivered.append(batch.agg(size.alias("size")).first()["size"] or 0)
            # The next batch is not being planned yet.
            log = proxy.log("GetRecords")
            read.append(sum(call.bytes for call in log))
            calls.append(len(log))

        writer.start()
        rows = source(spark, proxy.url, "live", startingPosition="trim_horizon")
        query = (
            rows.writeStream.foreachBatch(take)
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime=f"{INTERVAL} seconds")
            .start()
        )
        try:
            until = time.monotonic() + PATIENCE
            while len(calls) < LEFT_OUT + BATCHES and time.monotonic() < until:
                query.awaitTermination(1)
        finally:
            query.stop()
            done.set()
            writer.join()
    if len(calls) < LEFT_OUT + BATCHES:
        raise RuntimeError(f"only {len(calls)} batches in {PATIENCE:g} s: {query.exception()}")
    first, last = LEFT_OUT - 1, LEFT_OUT + BATCHES - 1
    of_these = slice(LEFT_OUT, LEFT_OUT + BATCHES)
    bytes_read, bytes_delivered = read[last] - read[first], sum(delivered[of_these])
    return Figure(
        name="kinesis_bytes_read",
        value=round(bytes_read / bytes_delivered, 3),
        unit="bytes read per byte delivered",
        goal=1.2,
        better="lower",
        detail={
            "batches": BATCHES,
            "batch_interval_seconds": INTERVAL,
            "records_per_second_and_shard": WRITTEN_PER_SECOND,
            "get_records_per_batch_and_shard": round(
                (calls[last] - calls[first]) / BATCHES / SHARDS, 2
            ),
            "bytes_read": bytes_read,
            "bytes_delivered": bytes_delivered,
        },
    )


def _write(client: Any, stream: str, done: threading.Event) -> None:
    """Records at an even rate, in calls of a tenth of a second."""
    each = SHARDS * WRITTEN_PER_SECOND // 10
    due = time.monotonic()
    while not done.is_set():
        records = [
            {"Data": random.randbytes(RECORD_BYTES), "PartitionKey": f"{random.random()}"}
            for _ in range(each)
        ]
        client.put_records(StreamName=stream, Records=records)
        due += 0.1
        time.sleep(max(0.0, due - time.monotonic()))
