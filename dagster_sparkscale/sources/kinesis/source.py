"""`format("kinesis-direct")`: the source as Spark sees it, a Python Data Source.

Spark makes the reader in a process of its own beside the driver, which plans, and takes a copy of
it to every task, which reads. Spark's checkpoint is the only one.
"""

import pyspark
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from dagster_sparkscale.driver.spark.releases import need

from .options import OptionsError, parse
from .plan_bounded import plan_bounded
from .rows import SCHEMA
from .service import service_for
from .tasks import Reads, ShardPartition

NAME = "kinesis-direct"


class KinesisDirectSource(DataSource):
    """Reads an Amazon Kinesis stream without receivers, without KCL and without DynamoDB
    (SPARK-20462). Options: see `options.py`.

    Raises:
        OptionsError: an option is missing, unknown or wrong; at `load()`.
        TooOld: this Spark can't stream from Python.
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._options = parse(dict(options))

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> "BatchReader":
        return BatchReader(self._options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        if self._options.end is not None:
            raise OptionsError("endingPosition: is for batch reads; a streaming query has no end")
        need(f'format("{NAME}") in a streaming query', "4.2", pyspark.__version__)
        from .stream_reader import StreamReader  # of what earlier releases do not have

        return StreamReader(self._options)


class BatchReader(Reads, DataSourceReader):
    """`spark.read`: from startingPosition, or the oldest record, to endingPosition or the tip."""

    def partitions(self) -> list[InputPartition]:
        ranges = plan_bounded(service_for(self._options.connection), self._options)
        return [ShardPartition(planned) for planned in ranges]
