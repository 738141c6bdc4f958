"""Changes the partitions of a query's state by Spark's own call, and tells how long that took.

bare.py CHECKPOINT PARTITIONS SECONDS_FILE
"""

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
checkpoint, partitions, told = sys.argv[1:]
began = time.monotonic()
spark._streamingCheckpointManager.repartition(checkpoint, int(partitions), True)
Path(told).write_text(str(time.monotonic() - began))
