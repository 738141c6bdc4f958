"""Writes the rows of a direct DStream to a file, until it is told to stop, or is killed.

Arguments: the emulator's URL, the stream's name, the folder of the store, the file to write, a
file that stops the program once it is there, the row after which it hangs (0: none), and the
master. Beside the file to write, another one has the application's id.
"""

import json
import os
import sys
import threading

from pyspark import RDD, SparkConf, SparkContext
from pyspark.streaming import StreamingContext

from dagster_sparkscale.sources.kinesis import kinesis_direct_stream

url, name, store, path, stop, hang_after, master = sys.argv[1:]
written = 0


def write(batch: "RDD[list[str]]") -> None:
    global written
    with open(path, "a") as file:
        for line in batch.map(json.dumps).toLocalIterator():
            file.write(f"{line}\n")
            file.flush()
            written += 1
            if written == int(hang_after):
                threading.Event().wait()


settings = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
}
context = SparkContext(conf=SparkConf().setMaster(master).setAll(list(settings.items())))
with open(f"{path}.app", "w") as app:
    app.write(context.applicationId)
streaming = StreamingContext(context, 0.3)
kinesis_direct_stream(
    streaming,
    streamName=name,
    region="us-east-1",
    endpointUrl=url,
    awsAccessKeyId="emulator",
    awsSecretAccessKey="emulator",
    respectServiceLimits=False,
    readTimeout="60s",
    maxRecordsPerTrigger=300,
    startingPosition="trim_horizon",
    store=store,
).map(lambda record: [record.data.decode(), record.shard_id, record.sequence_number]).foreachRDD(
    write
)
streaming.start()
while not streaming.awaitTerminationOrTimeout(0.1):
    if os.path.exists(stop):
        streaming.stop(stopSparkContext=True, stopGraceFully=True)
