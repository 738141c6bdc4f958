"""Catching up: a whole run with Trigger.AvailableNow against a plain loop of boto3's get_records.

Both read all of a stream of two shards that gets no more records, in turn, several times. The run
is timed from the start of the query to its end, with the process that plans it, all its batches
and their commits; only Spark itself, and its Python workers, have been started before. Pages come
from a cache that knows the stream's moments as well (`page_cache.py`).
"""

import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure
from benchmarks.kinesis_parts import page_cache, source
from dev import kinesis as emulators

NAME = "behind"
SHARDS = 2
RECORDS = 400_000
RECORD_BYTES = 200
REPETITIONS = 5
WARM_UPS = 2
PAGE = 10_000
CALL = 500
PATIENCE_S = 300


def catch_up(spark: Any, emulator: emulators.Emulator, folder: Path) -> Figure:
    client = emulator.client()
    emulators.create_stream(client, NAME, SHARDS)
    data = [random.randbytes(RECORD_BYTES) for _ in range(CALL)]
    entries = [{"Data": each, "PartitionKey": f"{n % 50}"} for n, each in enumerate(data)]
    began = time.time()
    for _ in range(RECORDS // CALL):
        client.put_records(StreamName=NAME, Records=entries)
    full = time.time()
    runs: list[dict[str, Any]] = []
    loops: list[float] = []
    with page_cache(emulator.url, NAME) as url:
        for _ in range(WARM_UPS + REPETITIONS):
            silent_s = time.time() - full
            runs.append(_run(spark, url, folder) | {"silent_seconds": round(silent_s)})
            loops.append(_loop(emulators.client(url)))
    runs, loops = runs[WARM_UPS:], loops[WARM_UPS:]
    ratios = [loop / run["seconds"] for run, loop in zip(runs, loops, strict=True)]
    return Figure(
        name="kinesis_catch_up",
        value=round(statistics.median(ratios), 3),
        unit="ratio of records/s",
        goal=2.0,
        better="higher",
        detail={
            "ratios": [round(ratio, 3) for ratio in ratios],
            "records": RECORDS,
            "record_bytes": RECORD_BYTES,
            "shards": SHARDS,
            "spanned_seconds": round(full - began),
            "runs": runs,
            "loop_seconds": [round(loop, 2) for loop in loops],
            "records_per_second": {
                "run": [round(RECORDS / run["seconds"]) for run in runs],
                "loop": [round(RECORDS / loop) for loop in loops],
            },
        },
    )


def _run(spark: Any, url: str, folder: Path) -> dict[str, Any]:
    rows = source(spark, url, NAME, startingPosition="trim_horizon", respectServiceLimits="false")
    with tempfile.TemporaryDirectory(dir=folder) as checkpoint:
        writer = rows.writeStream.format("noop").option("checkpointLocation", checkpoint)
        begin = time.perf_counter()
        query = writer.trigger(availableNow=True).start()
        try:
            if not query.awaitTermination(PATIENCE_S):
                raise RuntimeError(f"the run does not end in {PATIENCE_S} s: {query.status}")
            seconds = time.perf_counter() - begin
            batches = [each for each in query.recentProgress if each["numInputRows"]]
        finally:
            query.stop()
    read = [int(each["numInputRows"]) for each in batches]
    if sum(read) != RECORDS:
        raise RuntimeError(f"a run should read {RECORDS} records, and has read {read}")
    return {
        "seconds": round(seconds, 3),
        "batches": len(batches),
        "planning_ms": sum(each["durationMs"]["latestOffset"] for each in batches),
        "reading_ms": sum(each["durationMs"]["addBatch"] for each in batches),
    }


def _loop(client: Any) -> float:
    """Seconds to read all of the stream, shard by shard, page by page."""
    begin = time.perf_counter()
    read = 0
    for shard in client.list_shards(StreamName=NAME)["Shards"]:
        answer = client.get_shard_iterator(
            StreamName=NAME, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )
        iterator, records = answer["ShardIterator"], True
        while records:
            page = client.get_records(ShardIterator=iterator, Limit=PAGE)
            iterator, records = page["NextShardIterator"], bool(page["Records"])
            read += len(page["Records"])
    seconds = time.perf_counter() - begin
    if read != RECORDS:
        raise RuntimeError(f"the loop should read {RECORDS} records, and has read {read}")
    return seconds
