"""Orders, each one priced by a slow service. DStreams with receivers.

Connects to a server that sends one order a line ({"id": 7, "item": "lamp", "quantity": 2}), asks a
service for the price of every order, and writes JSON files. Plain PySpark: try it without a
cluster with

    nc -lk 9099 &
    python jobs/orders.py --port 9099 --receivers 1 --output /tmp/priced

Every receiver is a task that never ends: it takes one core of one executor for good, and the
batches are worked on by the cores that are left.
"""

import argparse
import json
import os
import time
import zlib
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from pyspark import RDD, SparkConf, SparkContext
from pyspark.streaming import StreamingContext


def main() -> None:
    parser = argparse.ArgumentParser(description="Price orders as they arrive.")
    parser.add_argument("--host", default="127.0.0.1", help="where the orders come from")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--receivers", type=int, default=2, help="connections to keep open")
    parser.add_argument("--output", required=True, help="folder for the priced orders")
    parser.add_argument("--wait-ms", type=float, default=40, help="how slow the service is")
    options = parser.parse_args()

    spark = SparkContext.getOrCreate(SparkConf().setAppName("orders"))
    # Set for a stream that dagster_sparkscale starts, from its declaration.
    interval_ms = int(spark.getConf().get("spark.sparkscale.batchIntervalMs", "5000"))
    streaming = StreamingContext(spark, interval_ms / 1000)

    lines = streaming.union(
        *(streaming.socketTextStream(options.host, options.port) for _ in range(options.receivers))
    )
    priced = lines.map(partial(price, options.wait_ms / 1000))
    priced.foreachRDD(lambda batch, orders: write(options.output, batch, orders))

    streaming.start()
    streaming.awaitTermination()


def price(wait_seconds: float, line: str) -> dict[str, Any]:
    """Runs on the executors, for one order at a time."""
    order: dict[str, Any] = json.loads(line)
    time.sleep(wait_seconds)  # the call to the service
    order["price_cents"] = order["quantity"] * (100 + zlib.crc32(order["item"].encode()) % 900)
    return order


def write(folder: str, batch: datetime, orders: "RDD[dict[str, Any]]") -> None:
    """Runs in the driver, once a batch."""
    prefix = batch.strftime("%Y%m%dT%H%M%S%f")
    orders.mapPartitionsWithIndex(partial(write_piece, folder, prefix)).count()


def write_piece(
    folder: str, prefix: str, piece: int, orders: Iterable[dict[str, Any]]
) -> Iterator[str]:
    """Runs on the executors, for one piece of a batch.

    A piece always has the same file name, and the file appears whole or not at all: a piece that
    is worked on twice is not written twice.
    """
    lines = [json.dumps(order) + "\n" for order in orders]
    if not lines:
        return
    os.makedirs(folder, exist_ok=True)
    name = f"{prefix}-{piece:04d}.jsonl"
    draft = Path(folder, f".{name}.{os.getpid()}")
    draft.write_text("".join(lines))
    draft.replace(Path(folder, name))
    yield name


if __name__ == "__main__":
    main()
