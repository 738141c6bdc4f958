"""A query and a DStreams graph, on a Spark that lacks much of what its agent would use."""

from pyspark.sql import SparkSession
from pyspark.streaming import StreamingContext

from dagster_sparkscale.driver.batches import dstreams, structured
from dagster_sparkscale.driver.executors import executors
from dagster_sparkscale.driver.receivers import tracker

# Each asks the real JVM for what it has not: a member, an overload, a class.
executors.Executors._details = lambda self: self._jvm.spark.noStatusStore()
structured.trigger_began = lambda query: query.streamingQuery("none takes a text")
structured.StructuredStreaming._note_interval = lambda self, query: self._private.use(
    structured.INTERVAL, query.noStreamingQuery, None
)
dstreams.DStreams._observe = lambda self, streaming: self._jvm.view.org.apache.spark.NoSuchClass(1)
tracker.ReceiverTracker._allocated = lambda self, streaming: streaming.noScheduler()

spark = SparkSession.builder.getOrCreate()
query = spark.readStream.format("rate").load().writeStream.format("noop")
query.queryName("rates").trigger(processingTime="1 second").start()
streaming = StreamingContext(spark.sparkContext, 1)
streaming.queueStream([spark.sparkContext.range(10)]).count().pprint()
streaming.start()
streaming.awaitTermination()
