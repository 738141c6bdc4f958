"""The program whose classes go into an archive of class data.

    python -I program.py SPARK WORK ARCHIVE     by maker.py

One JVM does what the four kinds of JVM do: a driver with batches, streams and a cluster, a master,
a worker, and tasks as an executor runs them. What fails is left out of the archive, no more: it is
read from the jars then, as ever.

What must not change: it needs nothing but the standard library and Spark's own Python.
"""

import os
import shlex
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# What nothing but the JVM of an executor loads while it starts.
_EXECUTOR_CLASSES = (
    "org.apache.spark.deploy.worker.WorkerWatcher",
    "org.apache.spark.executor.CoarseGrainedExecutorBackend",
    "org.apache.spark.executor.CoarseGrainedExecutorBackend$",
    "org.apache.spark.executor.CoarseGrainedExecutorBackend$$anon$2",
    "org.apache.spark.executor.CoarseGrainedExecutorBackend$Arguments",
    "org.apache.spark.executor.CoarseGrainedExecutorBackend$RegisteredExecutor$",
    "org.apache.spark.network.netty.NettyBlockTransferService$$anon$2",
    "org.apache.spark.network.shuffle.OneForOneBlockFetcher",
    "org.apache.spark.network.shuffle.OneForOneBlockFetcher$ChunkCallback",
    "org.apache.spark.network.shuffle.RetryingBlockTransferor",
    "org.apache.spark.network.shuffle.RetryingBlockTransferor$RetryingBlockTransferListener",
    "org.apache.spark.scheduler.cluster.CoarseGrainedClusterMessages$RegisterExecutor",
    "org.apache.spark.scheduler.cluster.CoarseGrainedClusterMessages$RetrieveSparkAppConfig",
)
_SETTINGS = {
    "spark.ui.port": "0",
    "spark.sql.shuffle.partitions": "2",
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.rddBlocks.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
    "spark.cores.max": "1",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
}
_DAEMON_SETTINGS = {
    "spark.deploy.recoveryMode": "FILESYSTEM",
    "spark.master.rest.enabled": "false",
    "spark.worker.cleanup.enabled": "true",
}
_PATIENCE = 90.0


def main(spark_home: Path, work: Path, archive: Path) -> int:
    threading.Thread(target=_end_with_the_maker, daemon=True).start()
    java_options = [
        # Made with the options that make it fastest. Neither these nor the collector bind those
        # who use the archive.
        *("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData"),
        *("-Xshare:auto", "-Xlog:cds*=off", f"-XX:ArchiveClassesAtExit={archive}"),
        f"-Djava.io.tmpdir={work}",
    ]
    quoted = " ".join(f'"{option}"' if " " in option else option for option in java_options)
    os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join(
        ["--driver-memory", "768m", "--driver-java-options", quoted, "pyspark-shell"]
    )
    python = [spark_home.parent] if spark_home.name == "pyspark" else [spark_home / "python"]
    python += sorted((spark_home / "python/lib").glob("py4j-*.zip"))
    sys.path[:0] = [str(path) for path in python]

    spark = _session("local[2]", work)
    class_path = spark.sparkContext._jvm.java.lang.System.getProperty("java.class.path")
    (work / "class-path").write_text(class_path)
    for part in (_queries, _streams, _python_source, _dstreams):
        _attempt(part, spark, work)
    spark.stop()
    _attempt(_cluster, work)
    return _end(spark)


def _end_with_the_maker() -> None:
    # Not through sys.stdin, whose lock would be in the way of an orderly end.
    while os.read(0, 1024):
        pass
    os._exit(1)  # the JVM follows: its own standard input ends


def _attempt(part: Callable[..., None], *arguments: Any) -> None:
    try:
        part(*arguments)
    except Exception as error:
        print(f"{part}: {error}", flush=True)


def _session(master: str, work: Path) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("class data")
    builder = builder.config("spark.sql.warehouse.dir", str(work / "warehouse"))
    for key, value in _SETTINGS.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _queries(spark: Any, work: Path) -> None:
    from pyspark.sql import functions as F

    rows = spark.range(50).withColumn("key", F.col("id") % 7)
    rows.groupBy("key").agg(F.sum("id")).join(rows, "key").orderBy("key").limit(5).collect()
    rows.select(F.udf(lambda x: x + 1, "long")("id").alias("x")).agg(F.max("x")).collect()
    rows.write.parquet(str(work / "parquet"))
    spark.read.parquet(str(work / "parquet")).count()
    rows.selectExpr("to_json(struct(*)) as value").write.text(str(work / "text"))
    spark.read.json(str(work / "text")).count()


def _streams(spark: Any, work: Path) -> None:
    from pyspark.sql import functions as F
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Listener(StreamingQueryListener):  # type: ignore[misc]
        def onQueryStarted(self, event: Any) -> None: ...
        def onQueryProgress(self, event: Any) -> None: ...
        def onQueryIdle(self, event: Any) -> None: ...
        def onQueryTerminated(self, event: Any) -> None: ...

    spark.streams.addListener(Listener())
    rate = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    counts = rate.groupBy(F.window("timestamp", "1 second"), "value").count()
    _two_batches(counts.writeStream.outputMode("update").format("noop"), work / "counts")
    each = rate.writeStream.foreachBatch(lambda batch, number: batch.count())
    _two_batches(each, work / "each")
    files = spark.readStream.schema("value string").text(str(work / "text"))
    sink = files.writeStream.format("parquet").option("path", str(work / "out"))
    query = sink.option("checkpointLocation", str(work / "files")).trigger(availableNow=True)
    query.start().awaitTermination(_PATIENCE)


def _two_batches(writer: Any, checkpoint: Path) -> None:
    writer = writer.option("checkpointLocation", str(checkpoint))
    query = writer.trigger(processingTime="200 milliseconds").start()
    _wait(lambda: not query.isActive or (query.lastProgress or {"batchId": 0})["batchId"] > 0)
    query.stop()


def _python_source(spark: Any, work: Path) -> None:
    from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

    class Reader(SimpleDataSourceStreamReader):  # type: ignore[misc]
        def initialOffset(self) -> dict[str, int]:
            return {"at": 0}

        def read(self, start: dict[str, int]) -> Any:
            return iter([(start["at"],)]), {"at": start["at"] + 1}

        def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Any:
            return iter([(start["at"],)])

    class Source(DataSource):  # type: ignore[misc]
        @classmethod
        def name(cls) -> str:
            return "class-data"

        def schema(self) -> str:
            return "value long"

        def simpleStreamReader(self, schema: Any) -> Reader:
            return Reader()

    spark.dataSource.register(Source)
    rows = spark.readStream.format("class-data").load()
    _two_batches(rows.writeStream.format("noop"), work / "python")


def _dstreams(spark: Any, work: Path) -> None:
    from pyspark.streaming import StreamingContext

    done = threading.Event()
    context = StreamingContext(spark.sparkContext, 1)
    pairs = context.queueStream([[("a", number)] for number in range(3)])
    counted = pairs.reduceByKey(lambda one, other: one + other)
    counted.foreachRDD(lambda rdd: done.set() if rdd.collect() else None)
    context.start()
    done.wait(_PATIENCE)
    context.stop(stopSparkContext=False)


def _cluster(work: Path) -> None:
    """A master and a worker in this JVM, and a driver whose executor registers."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    jvm = gateway.jvm
    loader = jvm.java.lang.ClassLoader.getSystemClassLoader()
    for name in _EXECUTOR_CLASSES:
        _attempt(jvm.java.lang.Class.forName, name, False, loader)
    for key, value in _DAEMON_SETTINGS.items():
        jvm.java.lang.System.setProperty(key, value)
    jvm.java.lang.System.setProperty("spark.deploy.recoveryDirectory", str(work / "recovery"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    master = f"spark://127.0.0.1:{port}"
    common = ["--host", "127.0.0.1", "--webui-port", "0"]

    def daemon(main_class: Any, arguments: list[str]) -> None:
        strings = gateway.new_array(jvm.java.lang.String, len(arguments))
        for index, argument in enumerate(arguments):
            strings[index] = argument
        # Returns when the JVM ends.
        threading.Thread(target=_attempt, args=(main_class.main, strings), daemon=True).start()

    deploy = jvm.org.apache.spark.deploy
    daemon(deploy.master.Master, [*common, "--port", str(port)])
    _wait(lambda: _listens(port))
    size = ["--cores", "1", "--memory", "1g", "--work-dir", str(work / "worker")]
    daemon(deploy.worker.Worker, [*common, *size, master])
    spark = _session(master, work)
    context = spark.sparkContext._jsc.sc()
    _wait(lambda: context.getExecutorIds().length() > 0)
    spark.stop()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _end(spark: Any) -> int:
    """End the JVM, which writes the archive; its exit code."""
    process = spark.sparkContext._gateway.proc
    process.stdin.close()
    code: int = process.wait()
    return code


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:4])))
