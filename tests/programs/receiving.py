"""A DStream with as many receivers as it is told, which acknowledge what they have stored. Its
checkpoint is of that number. Writes down what each batch has processed; how long a batch takes is
in the file `pause`."""

import os
import sys
import time

from pyspark import RDD, SparkContext
from pyspark.serializers import UTF8Deserializer
from pyspark.streaming import StreamingContext
from pyspark.streaming.dstream import DStream

from dagster_sparkscale import receiver_checkpoint, receiver_count

port, folder, base = int(sys.argv[1]), sys.argv[2], sys.argv[3]


def write(moment: object, batch: "RDD[str]") -> None:
    records = batch.collect()
    # Read anew: what a checkpoint brings back is this function as it was.
    with open(f"{folder}/pause") as file:
        time.sleep(float(file.read()))
    # Under another name first: whoever reads it must not see half of it.
    name = f"{folder}/{moment}".replace(" ", "T")
    with open(f"{name}.part", "w") as file:
        file.write("".join(f"{record}\n" for record in records))
    os.replace(f"{name}.part", name)


def create() -> StreamingContext:
    context = SparkContext.getOrCreate()
    streaming = StreamingContext(context, 1)
    streaming.checkpoint(receiver_checkpoint(base))
    receiver = context._jvm.sparkscale.tests.AckingReceiver
    streams = [
        DStream(
            streaming._jssc.receiverStream(receiver("127.0.0.1", port)),
            streaming,
            UTF8Deserializer(),
        )
        for _ in range(receiver_count(1))
    ]
    streaming.union(*streams).foreachRDD(write)
    return streaming


streaming = StreamingContext.getOrCreate(receiver_checkpoint(base), create)
streaming.start()
streaming.awaitTermination()
