"""What a Python data source finds of its live limits where the JVM was there before the driver's
Python, as it is in cluster mode: it has nothing of that one's environment."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dagster_sparkscale.driver.settings import RATES_FILE
from tests.releases import has

PROGRAM = """
import sys
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from dagster_sparkscale.driver.backpressure.rates import Rates

folder = Path(sys.argv[1])
SparkContext._ensure_initialized()  # the JVM
rates = Rates.prepare(folder)
settings = {"spark.master": "local[2]", "spark.ui.enabled": "false"}
context = SparkContext(conf=SparkConf().setAll(settings.items()))
rates.tell_jvm(context)
rates.change({"numbers": {"maxRecordsPerTrigger": 7}})


class Reader(DataSourceStreamReader):
    def initialOffset(self):
        return {"at": 0}

    def latestOffset(self, start, limit=None):
        from dagster_sparkscale.driver.live_limits import live_limits

        # As a whole: it is asked again and again, and is ended in the middle of it.
        draft = folder / "draft"
        draft.write_text(str(live_limits("numbers").get("maxRecordsPerTrigger")))
        draft.replace(folder / "found")
        return start

    def partitions(self, start, end):
        return [InputPartition(0)]

    def read(self, partition):
        return iter(())


class Numbers(DataSource):
    @classmethod
    def name(cls):
        return "numbers"

    def schema(self):
        return "number int"

    def streamReader(self, schema):
        return Reader()


spark = SparkSession.builder.getOrCreate()
spark.dataSource.register(Numbers)
query = spark.readStream.format("numbers").load().writeStream.format("noop")
try:
    query.option("checkpointLocation", str(folder / "checkpoint")).start().processAllAvailable()
finally:
    context.stop()
"""


@pytest.mark.clusters
@pytest.mark.spark
@pytest.mark.skipif(not has("4.2"), reason="Spark asks a source in Python for a limit from 4.2 on")
def test_a_python_source_finds_its_limits_where_the_jvm_was_there_first(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if name != RATES_FILE}
    subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env={**kept, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
        timeout=150,
    )
    assert (tmp_path / "found").read_text() == "7"
