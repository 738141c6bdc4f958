"""Queries on `format("kinesis-direct")` in this process: starting them, and what they deliver."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Row as SparkRow
from pyspark.sql.streaming import StreamingQuery

from dagster_sparkscale.sources import kinesis
from dev.kinesis import REGION
from tests.sources.kinesis.delivered import Row, row
from tests.sources.kinesis.programs.starting import started
from tests.sources.kinesis.stream import Stream
from tests.waiting import patience, wait_for

ONE = pytest.mark.parametrize("emulator", ["kinesis-mock"], indirect=True)
"""For a test that needs no second opinion on what an emulator does."""
APART = pytest.mark.clusters
"""For what `make test` has told in another way, and `make test-clusters` tells."""
SECOND_APART = pytest.mark.parametrize(
    "emulator", ["kinesis-mock", pytest.param("kinesalite", marks=APART)], indirect=True
)
"""For a test whose second opinion `make test-clusters` asks for."""


@contextmanager
def local_session(registered: bool = True) -> Iterator[SparkSession]:
    """A session of this process with two cores; its Python workers end with it.

    Args:
        registered: whether it knows the source.
    """
    patch = pytest.MonkeyPatch()
    patch.setenv("PYSPARK_PYTHON", sys.executable)
    patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    assert SparkContext._active_spark_context is None, "another test has left its SparkContext"
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.noDataProgressEventInterval": "200ms",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")  # what fails here is meant to
    if registered:
        kinesis.register(session)
    try:
        yield session
    finally:
        session.stop()
        patch.undo()


def settings(name: str, url: str, **more: Any) -> dict[str, str]:
    """Options of the source for a stream of an emulator, from its oldest record on."""
    given = {
        "streamName": name,
        "endpointUrl": url,
        "region": REGION,
        "awsAccessKeyId": "emulator",
        "awsSecretAccessKey": "emulator",
        "startingPosition": "trim_horizon",
        "respectServiceLimits": "false",
        "readTimeout": f"{patience(1) + 1:.1f}s",  # kinesalite never answers some calls
        **more,
    }
    return {option: str(value) for option, value in given.items() if value is not None}


def streamed(session: SparkSession, stream: Stream, url: str, **more: Any) -> DataFrame:
    reader = session.readStream.format("kinesis-direct")
    return reader.options(**settings(stream.name, url, **more)).load()


class Sink:
    """Collects what a query delivers.

    Batches are kept by their number, so one that is repeated replaces what it was: this is an
    idempotent sink. `again` has those that were repeated, each with what it was before.
    `before` is called when a batch has been planned, and nothing of it been read by a task yet;
    `fail` is asked after every batch that has rows, and has it fail.
    """

    def __init__(
        self, fail: Callable[[], bool] = lambda: False, before: Callable[[], None] = lambda: None
    ) -> None:
        self.batches: dict[int, list[SparkRow]] = {}
        self.again: list[tuple[int, list[SparkRow]]] = []
        self.before = before
        self._fail = fail

    def __call__(self, frame: DataFrame, number: int) -> None:
        self.before()
        came = frame.collect()
        if number in self.batches:
            self.again.append((number, self.batches[number]))
        self.batches[number] = came
        if came and self._fail():
            raise RuntimeError(f"the sink fails at batch {number}")

    @property
    def all(self) -> list[SparkRow]:
        batches = dict(self.batches)
        return [each for number in sorted(batches) for each in batches[number]]

    @property
    def rows(self) -> list[Row]:
        return [row(bytes(each.data)) for each in self.all]

    def __len__(self) -> int:
        return sum(len(batch) for batch in list(self.batches.values()))


@contextmanager
def running(
    frame: DataFrame, sink: Callable[[DataFrame, int], None], checkpoint: Path, **trigger: Any
) -> Iterator[StreamingQuery]:
    """A query from `frame` to `sink`; stopped in the end if it still runs."""
    writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    query = started(writer.trigger(**(trigger or {"processingTime": "500 milliseconds"})))
    try:
        yield query
    finally:
        query.stop()


def run(
    frame: DataFrame,
    sink: Callable[[DataFrame, int], None],
    checkpoint: Path,
    seconds: float = 90,
    **trigger: Any,
) -> StreamingQuery:
    """A query that ends by itself, with Trigger.AvailableNow unless another one is given.

    Raises:
        StreamingQueryException: it fails.
        AssertionError: it does not end within `seconds`.
    """
    with running(frame, sink, checkpoint, **(trigger or {"availableNow": True})) as query:
        wait_for(
            "the end of the query",
            lambda: query.awaitTermination(1),
            seconds,
            about=lambda: str(query.status),
        )
    return query


def until(query: StreamingQuery, what: str, look: Callable[[], Any], seconds: float = 90) -> Any:
    """Wait for something while a query runs; fails as soon as that has failed."""

    def seen() -> Any:
        found = look()
        if not found and not query.isActive:
            raise AssertionError(f"the query has ended before {what}: {query.exception()}")
        return found

    return wait_for(what, seen, seconds)


def failure(query: StreamingQuery, seconds: float = 90) -> str:
    """What a query has failed with, once it has."""
    wait_for("the query to fail", lambda: not query.isActive, seconds)
    error = query.exception()
    assert error is not None, "the query has ended without an error"
    return str(error)


def source_progress(query: StreamingQuery) -> dict[str, Any]:
    """What the last progress of a query says of its only source; empty if there is none yet."""
    progress = query.lastProgress
    return json.loads(progress.json)["sources"][0] if progress else {}


def told(query: StreamingQuery) -> dict[str, Any]:
    """What the source told last of how far behind it is; empty if it has not told yet."""
    return source_progress(query).get("latestOffset") or {}


def python_workers() -> list[psutil.Process]:
    """The Python processes that Spark has started below this one."""
    found = []
    for process in psutil.Process(os.getpid()).children(recursive=True):
        try:
            if re.search(r"pyspark[./]", " ".join(process.cmdline()[:4])):
                found.append(process)
        except psutil.Error:
            continue
    return found
