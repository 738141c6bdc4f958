"""One query in real-time mode, over a source of two partitions that gets a row every 0.2 s.

With `keyed` and `counted` it shuffles by key and keeps state; other arguments are `name=value`,
options of the writer, but for `trigger`.
"""

import sys
import threading
import time

from pyspark.sql import DataFrame, SparkSession

folder, kind, *given = sys.argv[1:]
options = dict(each.split("=", 1) for each in given)
spark = SparkSession.builder.getOrCreate()
jvm = spark._jvm
memory = jvm.org.apache.spark.sql.execution.streaming.sources.LowLatencyMemoryStream
strings = jvm.org.apache.spark.sql.Encoders.STRING()
source = memory.apply(2, strings, spark._jsparkSession.sqlContext())


def feed() -> None:
    for number in range(10_000):
        source.addData(jvm.PythonUtils.toSeq([f"a{number}", f"b{number}"]))
        time.sleep(0.2)


threading.Thread(target=feed, daemon=True).start()
rows = DataFrame(source.toDF(), spark)
trigger = options.pop("trigger", "5 seconds")
if kind == "keyed":
    rows = rows.dropDuplicates(["value"])
elif kind == "counted":
    rows = rows.groupBy("value").count()
query = (
    rows.writeStream.queryName("live")
    .format("console")
    .outputMode("update")
    .options(**options)
    .option("checkpointLocation", f"{folder}/checkpoint")
    .trigger(realTime=trigger)
    .start()
)
query.awaitTermination()
