"""Three queries: one that works, one that a poisoned file kills, one that has nothing to do.

Each batch of the working one also counts a result that was shuffled once, at the start.
"""

import sys

from pyspark.sql import DataFrame, SparkSession

folder = sys.argv[1]
spark = SparkSession.builder.appName("its own name").getOrCreate()
shuffled = spark.sparkContext.parallelize(range(6000), 6).map(lambda n: (n % 600, 1))
shuffled = shuffled.reduceByKey(lambda a, b: a + b, 6)
assert shuffled.count() == 600


def work(batch: DataFrame, number: int) -> None:
    lines = [row.value for row in batch.collect()]
    again = shuffled.map(lambda pair: pair[1]).sum()
    with open(f"{folder}/out/{number}", "w") as file:
        file.write("".join(f"{line} {again}\n" for line in lines))


def fail_on_poison(batch: DataFrame, number: int) -> None:
    if any("poison" in row.value for row in batch.collect()):
        raise ValueError("poisoned")


other = spark.newSession()
idle = (
    other.readStream.text(f"{folder}/nothing")
    .writeStream.queryName("idle")
    .foreachBatch(lambda batch, number: None)
    .trigger(processingTime="1 second")
    .start()
)
doomed = (
    spark.readStream.text(f"{folder}/doomed")
    .writeStream.queryName("doomed")
    .foreachBatch(fail_on_poison)
    .trigger(processingTime="1 second")
    .start()
)
good = (
    spark.readStream.option("maxFilesPerTrigger", 3)
    .text(f"{folder}/in")
    .writeStream.queryName("good")
    .foreachBatch(work)
    .option("checkpointLocation", f"{folder}/checkpoint")
    .trigger(processingTime="1 second")
    .start()
)
good.awaitTermination()
print("the program has ended by itself")
