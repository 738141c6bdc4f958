"""Exactly once into Spark's file sink, whatever is killed, and when."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.sql import SparkSession

from dagster_sparkscale.clusters.local import LocalCluster
from tests.clusters.running import submit_args
from tests.sources.kinesis.delivered import row
from tests.sources.kinesis.killed import Program
from tests.sources.kinesis.programs.starting import started
from tests.sources.kinesis.stream import Stream
from tests.sources.kinesis.structured import APART, ONE, streamed
from tests.waiting import wait_for

pytestmark = pytest.mark.spark
Make = Callable[..., Stream]


def check(session: SparkSession, made: Stream, program: Program) -> None:
    """That what the sink has, as Spark reads it and by the sink's own log, is what was put."""
    out = session.read.json(str(program.folder / "out")).select("data")
    made.assert_complete([row(each.data) for each in out.collect()], in_order=False)
    made.assert_complete(program.written())


def finish(session: SparkSession, made: Stream, program: Program, url: str) -> None:
    """Have a query of this process take up what the program has left."""
    lines = streamed(session, made, url).selectExpr("cast(data AS string) AS data", "shardId")
    writer = lines.writeStream.format("json").option("path", str(program.folder / "out"))
    writer = writer.option("checkpointLocation", str(program.checkpoint))
    query = started(writer.trigger(availableNow=True))
    try:
        wait_for("the end of the query", lambda: query.awaitTermination(1))
    finally:
        query.stop()


@ONE
def test_a_driver_that_is_killed_in_the_middle_of_a_batch(
    session: SparkSession, stream: Make, emulator: Any, tmp_path: Path
) -> None:
    made = stream(2)
    program = Program(tmp_path, emulator.url, made.name)
    made.put(50)
    with program.holding(), program.running() as process:
        program.wait(process, "a held task", program.held)
    assert program.begun()
    made.put_around(100, lambda: made.split(made.open_shards()[0].id))
    finish(session, made, program, emulator.url)
    check(session, made, program)


@APART
@ONE
def test_executors_and_python_workers_that_are_killed(
    session: SparkSession,
    stream: Make,
    emulator: Any,
    tmp_path: Path,
    local_cluster: LocalCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", submit_args(local_cluster, tmp_path))
    made = stream(2)
    program = Program(tmp_path, emulator.url, made.name, master=local_cluster._master())
    with made.writing(20), program.running() as process:
        with program.holding():
            workers = program.wait(process, "a held task", program.held)
            program.executor_of(next(iter(workers))).kill()
            program.wait(process, "another held task", lambda: program.held() - workers)
            batch = program.latest("offsets")
            assert program.begun()
        program.wait(process, "the batch", lambda: program.latest("commits") >= batch)
        made.split(made.open_shards()[0].id)
        with program.holding():
            workers = program.wait(process, "a held task", program.held)
            batch = program.latest("offsets")
            # Those that are held, and those that read the stream for them.
            for worker in workers:
                for each in worker.parent().children():
                    with contextlib.suppress(psutil.NoSuchProcess):
                        each.kill()
        program.wait(process, "the next batch", lambda: program.latest("commits") > batch)
    program.finish()
    check(session, made, program)
