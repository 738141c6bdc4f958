"""DStreams as they are commonly written: a context by its constructor, recovered if it can be."""

import os
import sys
import time
from collections.abc import Iterable

from pyspark import RDD, SparkContext
from pyspark.streaming import StreamingContext

port, receivers, folder, pause = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], float(sys.argv[4])


def create() -> StreamingContext:
    context = SparkContext(appName="sockets")
    streaming = StreamingContext(context, 1)
    streaming.checkpoint(f"{folder}-checkpoint")
    streams = [streaming.socketTextStream("127.0.0.1", port) for _ in range(receivers)]
    streaming.union(*streams).foreachRDD(write)
    return streaming


def write(moment: object, batch: "RDD[str]") -> None:
    lines: Iterable[str] = batch.collect()
    time.sleep(pause)
    with open(f"{folder}/{moment}".replace(" ", "T"), "a") as file:
        file.write("".join(f"{line}\n" for line in lines))


os.makedirs(folder, exist_ok=True)
streaming = StreamingContext.getOrCreate(f"{folder}-checkpoint", create)
streaming.start()
streaming.awaitTermination()
print("the program has ended by itself")
