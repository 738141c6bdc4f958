"""The code location of `soak_ten`: ten streams, one of each kind, on a local cluster of their own.

All wait for what they do with each record, so that ten of them fit on two processors; what Spark's
UI keeps is bounded low, so that it is full before memory is compared, and a driver's JVM collects
all its garbage every two minutes, so that what it holds is what it needs.
"""

import json
import os
from pathlib import Path
from typing import Any

from dagster_sparkscale import (
    BackpressurePolicy,
    Budget,
    Calendar,
    CapacityPolicy,
    DStream,
    LocalCluster,
    RatioPolicy,
    ReceiverPolicy,
    RecoveryPolicy,
    Retune,
    SourceLimits,
    State,
    StructuredStream,
    Window,
    build_defs,
)
from dev.kafka.connector import connector
from dev.runs import MARK
from tests.e2e.ten.places import Places
from tests.short_lives import EXECUTORS

ROOT = Path(__file__).parents[3]
PROGRAMS = Path(__file__).parent / "programs"
INTERVAL = "15s"
TOPICS = ("kafka", "limited")
PARTITIONS = 2
"""Of each topic, and of the Kinesis stream."""

places = Places(**json.loads(os.environ[Places.VARIABLE]))
folder = Path(places.folder)
cluster = LocalCluster(
    state_dir=str(folder / "cluster"),
    workers=2,
    cores_per_worker=16,
    memory_per_worker="16g",
    spark_conf=EXECUTORS,
    pass_environment=[MARK],
)
_KEPT = {
    **dict.fromkeys(("spark.ui.retainedJobs", "spark.ui.retainedStages"), "40"),
    **dict.fromkeys(("spark.ui.retainedDeadExecutors", "spark.ui.retainedTasks"), "40"),
    "spark.sql.ui.retainedExecutions": "20",
    "spark.sql.streaming.ui.retainedProgressUpdates": "20",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    "spark.streaming.ui.retainedBatches": "40",
    "spark.cleaner.periodicGC.interval": "2min",
}
_HEAP = "-XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=20"


def policy(kind: type = RatioPolicy, **fields: Any) -> Any:
    return kind(**{"interval": "60s", "max_executors": 3, "hand_pin": "2 min", **fields})


def stream(kind: type, name: str, program: Path, *arguments: str, **fields: Any) -> Any:
    declared: dict[str, Any] = {
        "program": str(program),
        "arguments": arguments,
        "batch_interval": INTERVAL,
        "executor_memory": "512m",
        "driver_memory": "512m",
        "autoscale": policy(),
        "recovery": RecoveryPolicy(first_delay=5, longest_delay=60, limit=12),
    }
    logged = f"-Xlog:gc:file={places.of(name) / 'gc-%p.log'}"
    conf = {"spark.driver.extraJavaOptions": f"{_HEAP} {logged}", **_KEPT}
    conf |= fields.pop("spark_conf", {})
    return kind(name=name, **{**declared, "spark_conf": conf, **fields})


def reading(name: str, source: str, *arguments: str, **fields: Any) -> StructuredStream:
    given = (source, str(places.of(name)), *arguments)
    checkpoint = str(places.of(name) / "checkpoint")
    program = PROGRAMS / "reading.py"
    made = stream(StructuredStream, name, program, *given, checkpoint_location=checkpoint, **fields)
    assert isinstance(made, StructuredStream)
    return made


def _options(**given: str) -> list[str]:
    return [word for name, value in given.items() for word in ("--option", name, value)]


def _kafka(name: str, *arguments: str, **fields: Any) -> StructuredStream:
    servers = ["--option", "kafka.bootstrap.servers", places.kafka]
    options = _options(subscribe=name, startingOffsets="earliest")
    conf = {"spark.jars": connector()}
    return reading(name, "kafka", *servers, *options, *arguments, spark_conf=conf, **fields)


_RATE = _options(rowsPerSecond="4", numPartitions="2")
_KINESIS = _options(
    streamName="kinesis",
    endpointUrl=places.kinesis,
    region="us-east-1",
    startingPosition="trim_horizon",
)
_ORDERS = ROOT / "jobs" / "orders.py"


def _taking(name: str, receivers: int, **fields: Any) -> Any:
    given = ("--port", str(places.ports[name]), "--output", str(places.of(name) / "out"))
    conf = {"spark.streaming.blockInterval": "2s", "spark.locality.wait": "0s"}
    arguments = (*given, "--receivers", str(receivers), "--wait-ms", "150")
    declared = {"receivers": receivers, "executor_cores": 2, "spark_conf": conf, **fields}
    return stream(DStream, name, _ORDERS, *arguments, **declared)


STREAMS = [
    reading("rate", "rate", *_RATE),
    reading("keys", "files", "--by-key", state=State(key_groups=16, partitions=4)),
    reading("files", "files", autoscale=policy(CapacityPolicy, price_of_lateness=10)),
    _kafka("kafka", autoscale=policy(max_lag="2 min")),
    reading("kinesis", "kinesis-direct", *_KINESIS, autoscale=policy(max_lag="2 min")),
    _kafka(
        "limited",
        *("--limits", "limited"),
        limits={"limited": SourceLimits(max_offsets_per_trigger=120)},
        retune=Retune(),
    ),
    reading(
        "planned",
        "rate",
        *_RATE,
        autoscale=policy(ceiling=4),
        calendar=Calendar(windows=(Window(cron="*/20 * * * *", duration="10m", bounds=(2, 4)),)),
    ),
    _taking("receivers", 2, receiver_policy=ReceiverPolicy(), autoscale=policy(min_executors=2)),
    _taking("pressed", 1, backpressure=BackpressurePolicy(min_rate=2.0, max_rate=50.0)),
    stream(DStream, "folders", PROGRAMS / "folders.py", str(places.of("folders"))),
]
NAMES = [each.name for each in STREAMS]
defs = build_defs(STREAMS, cluster, budget=Budget(cores=26))
