"""Records as a DStream has them, and reading them on executors.

Tasks of a running driver name this module, its class and its functions: their names stay.
"""

from binascii import a2b_base64
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from .options import Options
from .ranges import Range
from .read import ahead, read
from .rows import split_aggregated
from .service import arrived_ms, service_for


class KinesisRecord(NamedTuple):
    data: bytes
    partition_key: str
    sequence_number: str
    sub_sequence_number: int | None
    """The place within a record of the Kinesis Producer Library that held several; None for one
    that was put by itself."""
    arrival: datetime
    """When the service took it in, in UTC."""
    shard_id: str


def read_ranges(options: Options, ranges: Iterable[Range]) -> Iterator[KinesisRecord]:
    """All records of some ranges, in order within each. What a task does."""
    service = service_for(options.connection)
    for planned in ranges:
        for page in ahead(read(service, planned, options.fail_on_data_loss)):
            records, places = split_aggregated(page) if options.deaggregate else (page, None)
            for number, record in enumerate(records):
                yield KinesisRecord(
                    a2b_base64(record["Data"]),
                    record["PartitionKey"],
                    record["SequenceNumber"],
                    places[number] if places else None,
                    datetime.fromtimestamp(record["ApproximateArrivalTimestamp"], UTC),
                    planned.shard,
                )


def about(planned: Range) -> int:
    """About how many records a range has: what lies behind the first ones of it has not been read
    yet, and is taken to be as dense as they are."""
    known = len(planned.head)
    if planned.whole or len(planned.head) < 2 or planned.end.time_ms is None:
        return known
    first, last = arrived_ms(planned.head[0]), arrived_ms(planned.head[-1])
    if last <= first:
        return known
    density = (len(planned.head) - 1) / (last - first)
    return known + round(max(0, planned.end.time_ms - last) * density)
