"""`format("kinesis-direct")`: the source as Spark sees it, a Python Data Source.

Spark makes the reader in a process of its own beside the driver, which plans, and takes a copy of
it to every task, which reads. Spark's checkpoint is the only one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyspark
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from dagster_sparkscale.driver.spark.releases import need

from .options import Options, OptionsError, parse
from .plan_bounded import plan_bounded
from .ranges import Range
from .read import ahead, read
from .rows import SCHEMA, to_arrow
from .shared import service_for

NAME = "kinesis-direct"


class KinesisDirectSource(DataSource):
    """Reads an Amazon Kinesis stream without receivers, without KCL and without DynamoDB
    (SPARK-20462). Options: see `options.py`.

    Raises:
        OptionsError: an option is missing, unknown or wrong; at `load()`.
        TooOld: this Spark can't stream it.
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


@dataclass
class ShardPartition(InputPartition):
    """A task's work."""

    planned: Range


class Reads:
    """What runs on executors: the same for streams and for batch reads."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, ShardPartition):
            return  # what Spark makes of no partitions at all
        options, shard = self._options, partition.planned.shard
        service = service_for(options.connection)
        pages = read(service, partition.planned, options.fail_on_data_loss)
        yield from ahead(
            to_arrow(page, shard, options.connection.stream, options.deaggregate) for page in pages
        )


class BatchReader(Reads, DataSourceReader):
    """`spark.read`: from startingPosition, or the oldest record, to endingPosition or the tip."""

    def partitions(self) -> list[InputPartition]:
        ranges = plan_bounded(service_for(self._options.connection), self._options)
        return [ShardPartition(planned) for planned in ranges]
