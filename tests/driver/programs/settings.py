"""Says what came of the settings that it made, in its SparkConf and in its environment."""

import json
import os
import sys

os.environ["PYSPARK_PYTHON"] = sys.argv[2]

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

conf = SparkConf()
conf.set("spark.sql.shuffle.partitions", "7")
conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
conf.set("spark.sql.warehouse.dir", f"{sys.argv[1]}-warehouse")  # static: of the first session
conf.set("spark.executor.memory", "3g")
context = SparkContext(conf=conf)
spark = SparkSession.builder.getOrCreate()
names = ("shuffle.partitions", "session.timeZone", "ansi.enabled", "warehouse.dir")
said = {name: spark.conf.get(f"spark.sql.{name}") for name in names}
said["memory"] = context.getConf().get("spark.executor.memory")
said["python"] = context.pythonExec
with open(sys.argv[1], "w") as file:
    json.dump(said, file)
