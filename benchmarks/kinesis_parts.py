"""What the Kinesis benchmarks share: a Spark, the source, and a cache of pages."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dev import kinesis as emulators


@contextmanager
def spark_session() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    from dagster_sparkscale.sources.kinesis import register

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = SparkSession.builder.master("local[2]").appName("kinesis").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def page_cache(url: str, *streams: str) -> Iterator[str]:
    """The address of a `benchmarks.page_cache` in front of an emulator; see there for `streams`."""
    command = [sys.executable, "-m", "benchmarks.page_cache", url, *streams]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def source(spark: Any, url: str, stream: str, **options: str) -> Any:
    given = {
        "streamName": stream,
        "endpointUrl": url,
        "region": emulators.REGION,
        "awsAccessKeyId": "emulator",
        "awsSecretAccessKey": "emulator",
        **options,
    }
    return spark.readStream.format("kinesis-direct").options(**given).load()
