"""Reads Amazon Kinesis without receivers, KCL or DynamoDB (SPARK-20462).

    from dagster_sparkscale.sources import kinesis

    kinesis.register(spark)
    rows = spark.readStream.format("kinesis-direct").option("streamName", "clicks").load()

For DStreams there is `kinesis.kinesis_direct_stream`. The modules, from the ground up: what is
pure is in positions, shards, page_sizes, span, options and quota; service makes the calls;
shard_plan plans for one shard, planner for all; read reads; source, stream_reader and dstream bind
it to Spark.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .dstream.stream import kinesis_direct_stream as kinesis_direct_stream

__all__ = ["kinesis_direct_stream", "register"]


def register(spark: "SparkSession") -> None:
    """Make `format("kinesis-direct")` known to a session.

    The package and what it needs (`pip install 'dagster-sparkscale[kinesis]'`) has to be there on
    the executors too.

    Raises:
        TooOld: this Spark has no Python data sources.
    """
    import pyspark

    from dagster_sparkscale.driver.spark.releases import need

    need('format("kinesis-direct")', "4.0 (4.2 for streaming queries)", pyspark.__version__)
    from pyspark.errors import AnalysisException

    from .source import KinesisDirectSource

    try:
        spark.dataSource.register(KinesisDirectSource)
    except AnalysisException as error:
        # 4.0 says so of what it has found by itself, which is the same.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def __getattr__(name: str) -> Any:
    if name == "kinesis_direct_stream":
        from .dstream.stream import kinesis_direct_stream

        return kinesis_direct_stream
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
