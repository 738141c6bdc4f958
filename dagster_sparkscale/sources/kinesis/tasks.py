"""What executors read of a Kinesis stream: the same for streaming queries and for batch reads."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import InputPartition

from .options import Options
from .ranges import Range
from .read import ahead, read
from .rows import to_arrow
from .service import service_for


@dataclass
class ShardPartition(InputPartition):
    """The range of one shard that a task reads."""

    planned: Range


class Reads:
    """The part of a reader that runs in each task; Spark takes a copy of the reader there."""

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
