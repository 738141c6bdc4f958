"""Exactly once into Spark's file sink: one driver after the other is killed."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.sources.kinesis.killed import Program
from tests.sources.kinesis.proxy import FaultProxy
from tests.sources.kinesis.stream import Stream
from tests.sources.kinesis.structured import ONE
from tests.sources.kinesis.test_exactly_once import check

pytestmark = pytest.mark.spark
Make = Callable[..., Stream]


@ONE
def test_a_driver_that_is_killed_at_every_bad_moment(
    session: SparkSession, stream: Make, proxy: FaultProxy, tmp_path: Path
) -> None:
    made = stream(2)
    made.client.put_record(StreamName=made.name, Data=b"older than latest", PartitionKey="old")
    program = Program(tmp_path, proxy.url, made.name, start="latest")

    # Nothing has been read yet, and where it was to begin is known.
    with program.running() as process:
        program.wait(process, "the first batch", lambda: program.latest("commits") == 0)
    made.put(50)

    with made.writing(20):
        # While it plans.
        rule = proxy.hang("GetRecords", times=10**9)
        with program.running() as process:
            program.wait(process, "planning", lambda: rule.left < 10**9)
        proxy.heal()
        made.split(made.open_shards()[0].id)

        # In the middle of a batch.
        with program.holding(), program.running() as process:
            program.wait(process, "a held task", program.held)
            assert program.begun()
        assert program.begun()
        made.merge(*(shard.id for shard in made.open_shards()[:2]))

        # As soon as the end of a batch is written down.
        with program.running() as process:
            batch = program.latest("commits") + 2
            program.wait(process, "a planned batch", lambda: program.latest("offsets") >= batch)

        # As soon as the sink has a batch, which Spark takes to be open.
        with program.running() as process:
            batch = program.latest("commits") + 2
            program.wait(process, "a written batch", lambda: program.latest("sink") >= batch)

    program.finish()
    check(session, made, program)
