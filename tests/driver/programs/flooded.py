"""A DStream whose receivers bring as much as they may, and whose batches take time by their
records. How many milliseconds a record takes is in the file `cost`."""

import sys
import time
from typing import Any

from pyspark import SparkContext
from pyspark.streaming import StreamingContext

port, receivers, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]


def work(moment: Any, batch: Any) -> None:
    records = batch.count()
    with open(f"{folder}/cost") as file:
        time.sleep(records * float(file.read()) / 1000)


context = SparkContext(appName="flooded")
streaming = StreamingContext(context, 1)
if context.getConf().get("spark.streaming.receiver.writeAheadLog.enable", "false") == "true":
    streaming.checkpoint(f"{folder}/checkpoint")
streams = [streaming.socketTextStream("127.0.0.1", port) for _ in range(receivers)]
streaming.union(*streams).foreachRDD(work)
streaming.start()
streaming.awaitTermination()
