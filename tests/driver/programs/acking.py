"""A DStream of receivers that acknowledge what they have stored, with a write-ahead log. Writes
down what each batch has processed."""

import os
import sys

from pyspark import RDD, SparkContext
from pyspark.serializers import UTF8Deserializer
from pyspark.streaming import StreamingContext
from pyspark.streaming.dstream import DStream

port, receivers, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]


def write(moment: object, batch: "RDD[str]") -> None:
    records = batch.collect()
    # Under another name first: whoever reads it must not see half of it.
    name = f"{folder}/{moment}".replace(" ", "T")
    with open(f"{name}.part", "w") as file:
        file.write("".join(f"{record}\n" for record in records))
    os.replace(f"{name}.part", name)


os.makedirs(folder, exist_ok=True)
context = SparkContext(appName="acking")
streaming = StreamingContext(context, 1)
streaming.checkpoint(f"{folder}-checkpoint")
receiver = context._jvm.sparkscale.tests.AckingReceiver
streams = [
    DStream(
        streaming._jssc.receiverStream(receiver("127.0.0.1", port)), streaming, UTF8Deserializer()
    )
    for _ in range(receivers)
]
streaming.union(*streams).foreachRDD(write)
streaming.start()
streaming.awaitTermination()
