"""A DStream without receivers: takes the lines of the files that come into a folder, works on each,
and writes down what each batch has processed.

    folders.py FOLDER

How long a line takes is in the file `pace` of FOLDER, in seconds.
"""

import sys
import time
from datetime import datetime
from pathlib import Path

from pyspark import RDD, SparkContext
from pyspark.streaming import StreamingContext

PIECES = 6
folder = Path(sys.argv[1])
(folder / "out").mkdir(exist_ok=True)
context = SparkContext.getOrCreate()
seconds = int(context.getConf().get("spark.sparkscale.batchIntervalMs")) / 1000
streaming = StreamingContext(context, seconds)


def write(moment: datetime, batch: "RDD[str]") -> None:
    pace = float((folder / "pace").read_text())

    def work(line: str) -> str:
        time.sleep(pace)
        return line

    lines = batch.repartition(PIECES).map(work).collect()
    draft = folder / "out" / f".{moment:%Y%m%dT%H%M%S}"
    draft.write_text("".join(f"{line}\n" for line in lines))
    draft.replace(folder / "out" / f"{moment:%Y%m%dT%H%M%S}.txt")


streaming.textFileStream(str(folder / "in")).foreachRDD(write)
streaming.start()
streaming.awaitTermination()
