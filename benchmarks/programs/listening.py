"""A DStream with one receiver, of Spark's own kind for sockets. Counts what it gets."""

import sys

from pyspark import SparkContext
from pyspark.streaming import StreamingContext

context = SparkContext()
streaming = StreamingContext(context, 1)
streaming.socketTextStream("127.0.0.1", int(sys.argv[1])).count().foreachRDD(lambda _: None)
streaming.start()
streaming.awaitTermination()
