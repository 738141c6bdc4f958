"""DStreams as they are commonly written: a context by its constructor, recovered if it can be."""

import os
import sys
import time
from collections.abc import Iterable

from pyspark import RDD, SparkContext
from pyspark.streaming import StreamingContext

port, receivers, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]


def create() -> StreamingContext:
    context = SparkContext(appName="sockets")
    streaming = StreamingContext(context, 1)
    streaming.checkpoint(f"{folder}-checkpoint")
    streams = [streaming.socketTextStream("127.0.0.1", port) for _ in range(receivers)]
    streaming.union(*streams).foreachRDD(write)
    return streaming


def write(moment: object, batch: "RDD[str]") -> None:
    lines: Iterable[str] = batch.collect()
    # Read anew: what a checkpoint brings back is this function as it was.
    with open(f"{folder}-pause") as file:
        time.sleep(float(file.read()))
    with open(f"{folder}/{moment}".replace(" ", "T"), "a") as file:
        file.write("".join(f"{line}\n" for line in lines))


os.makedirs(folder, exist_ok=True)
streaming = StreamingContext.getOrCreate(f"{folder}-checkpoint", create)
streaming.start()
streaming.awaitTermination()
print("the program has ended by itself")
