"""The reference code location: copy this file, and declare your own streams in it.

Three streams, each with its policy, on a Spark cluster that is started on this machine. `make demo`
puts a load on them that rises and falls, `dg dev -f definitions.py` just loads them. The programs
are in the folder `jobs` beside this file, the sensors of this deployment in `sensors`.
"""

import os
from pathlib import Path

import dagster as dg

from dagster_sparkscale import (
    CapacityPolicy,
    DStream,
    LocalCluster,
    RatioPolicy,
    ReceiverPolicy,
    Retune,
    SourceLimits,
    State,
    StreamingLimits,
    StructuredStream,
    build_defs,
    streaming_asset,
)
from sensors.alerts import alerts
from sensors.caught_up import visit_reports

HERE = Path(__file__).resolve().parent
# Where data, checkpoints and the cluster's own records are kept.
DATA = Path(os.environ.get("SPARKSCALE_DATA", HERE / ".sparkscale"))
# How often each stream is evaluated. A minute suits production; the demo has less patience.
INTERVAL = os.environ.get("SPARKSCALE_DEMO_INTERVAL", "60s")
# How often a stream to which nothing happens is told of. What happens is told at once.
REPORT_EVERY = os.environ.get("SPARKSCALE_DEMO_REPORT_EVERY", "10 min")

# Embedded: two workers that offer more cores than the machine may have, which suits programs that
# mostly wait. For a cluster that exists, put StandaloneCluster(...) in its place.
cluster = LocalCluster(
    state_dir=str(DATA / "cluster"),
    workers=2,
    cores_per_worker=8,
    memory_per_worker="4g",
    # What programs need of the environment, besides what Spark, Java, Python and clouds go by. Here
    # it is what `make demo` finds all its processes by.
    pass_environment=["STREAMS_RUN"],
)

# Only for a machine of few cores, where a JVM's compiler would take them from the batches for
# minutes. A stream that is to run for months does better without.
_LESS_COMPILING = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
SMALL_MACHINE = {
    "spark.driver.extraJavaOptions": _LESS_COMPILING,
    "spark.executor.extraJavaOptions": _LESS_COMPILING,
}


def policy(min_executors: int, max_executors: int, max_lag: str | None = None) -> RatioPolicy:
    """The thresholds of SPARK-12133: up from R 0.9, down from R 0.5. Every stream may differ, as
    `clicks` does."""
    return RatioPolicy.spark_12133(
        interval=INTERVAL,
        min_executors=min_executors,
        max_executors=max_executors,
        max_lag=max_lag,
    )


clicks = StructuredStream(
    name="clicks",
    description="Clicks, rated one by one, and summed up by page and minute.",
    program=str(HERE / "jobs" / "clicks.py"),
    arguments=("--input", str(DATA / "clicks"), "--output", str(DATA / "rated_pages")),
    batch_interval="5s",
    executor_memory="512m",
    spark_conf=SMALL_MACHINE,
    checkpoint_location=str(DATA / "checkpoints" / "clicks"),
    # Learns what a click costs and how the load goes on, and goes in one step to the size that it
    # needs. Frugal: on a small machine a batch may rather be late than have a third executor.
    autoscale=CapacityPolicy(
        interval=INTERVAL, min_executors=1, max_executors=3, price_of_lateness=10
    ),
    # The sums are state. On Sunday nights its partitions become as many as are declared. By hand
    # they may become any number that divides the key groups, at any time (docs/state.md).
    state=State(key_groups=16, partitions=2, maintenance="0 3 * * SUN", timezone="Europe/Berlin"),
    report_every=REPORT_EVERY,
    deps=("click_files",),
    group="streams",
    owners=("team:web-analytics",),
)


@streaming_asset(
    DStream,
    program=str(HERE / "jobs" / "orders.py"),
    batch_interval="5s",
    receivers=2,
    # Where one executor has both receivers, as after another one was lost, one of them is moved.
    receiver_policy=ReceiverPolicy(),
    # However much waits after an outage, no receiver takes more; looked over every night.
    limits=StreamingLimits(max_rate=500),
    retune=Retune(),
    # Two receivers take two of the four cores that the minimum of two executors has.
    executor_cores=2,
    executor_memory="512m",
    autoscale=policy(min_executors=2, max_executors=4),
    report_every=REPORT_EVERY,
    spark_conf={
        **SMALL_MACHINE,
        # A batch is cut into one task for each block a receiver has stored: two receivers and a
        # batch of 5 s make 12 tasks for the cores to share.
        "spark.streaming.blockInterval": "800ms",
        # Tasks go to whoever is free. By default each would wait 3 s for the executor that holds
        # its block, and new executors would have nothing to do.
        "spark.locality.wait": "0s",
    },
    deps=("order_feed",),
    group="streams",
    owners=("team:shop",),
)
def orders() -> list[str]:
    """Orders, priced one by one as two receivers take them in."""
    # Called each time the stream is started: the place to look something up.
    port = os.environ.get("ORDER_FEED_PORT", "9099")
    return ["--port", port, "--output", str(DATA / "priced_orders")]


@streaming_asset(
    StructuredStream,
    program=str(HERE / "jobs" / "visits.py"),
    batch_interval="5s",
    executor_memory="512m",
    spark_conf=SMALL_MACHINE,
    checkpoint_location=str(DATA / "checkpoints" / "visits"),
    # The maximum is what it may have in the end. As long as the stream has two shards, two
    # executors are all that can work on a batch, and the autoscaler asks for no more.
    autoscale=policy(min_executors=1, max_executors=4, max_lag="1 min"),
    report_every=REPORT_EVERY,
    deps=("visit_events",),
    group="streams",
    owners=("team:web-analytics",),
)
def visits() -> list[str]:
    """Visits, robots told from people one by one. A task for each shard of the Kinesis stream."""
    # No credentials, which nothing that is started should show. On AWS the roles of the machines
    # that drivers and executors run on give access; elsewhere, as in the demo, the environment of
    # both has AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
    region = os.environ.get("AWS_DEFAULT_REGION", "us-east-1")
    given = ["--stream", "visits", "--region", region, "--output", str(DATA / "checked_visits")]
    endpoint = os.environ.get("VISITS_ENDPOINT")  # of the demo's emulator; without it, of AWS
    return [*given, "--endpoint", endpoint] if endpoint else given


STREAMS: list[StructuredStream | DStream] = [clicks, orders, visits]

# Where there is a Kafka: `make demo KAFKA=1` starts one.
if "PAYMENTS_BROKERS" in os.environ:
    payments = StructuredStream(
        name="payments",
        description="Payments, checked one by one. A task for each partition of the Kafka topic.",
        program=str(HERE / "jobs" / "payments.py"),
        arguments=(
            *("--servers", os.environ["PAYMENTS_BROKERS"], "--topic", "payments"),
            *("--output", str(DATA / "checked_payments")),
        ),
        batch_interval="5s",
        executor_memory="512m",
        # Spark's connector for Kafka is no part of PySpark: here jars that are there already. Where
        # Maven Central can be reached, `spark.jars.packages` (docs/kafka.md).
        spark_conf={**SMALL_MACHINE, "spark.jars": os.environ["KAFKA_CONNECTOR"]},
        checkpoint_location=str(DATA / "checkpoints" / "payments"),
        autoscale=policy(min_executors=1, max_executors=4, max_lag="1 min"),
        # However much waits after an outage, no batch is larger. Each night it is told what limit
        # would suit it better; with Retune(apply=True) it is given that.
        limits={"payments": SourceLimits(max_offsets_per_trigger=1000)},
        retune=Retune(),
        report_every=REPORT_EVERY,
        deps=("payment_events",),
        group="streams",
        owners=("team:shop",),
    )
    STREAMS.append(payments)

# What the streams read, so that lineage shows where the data comes from.
sources = [
    dg.AssetSpec("click_files", group_name="sources", description="Clicks, as JSON files."),
    dg.AssetSpec("order_feed", group_name="sources", description="Orders, a line each, over TCP."),
    dg.AssetSpec("visit_events", group_name="sources", description="Visits, on Amazon Kinesis."),
]
if "PAYMENTS_BROKERS" in os.environ:
    sources += [
        dg.AssetSpec("payment_events", group_name="sources", description="Payments, on Kafka.")
    ]

defs = dg.Definitions.merge(
    build_defs(STREAMS, cluster),
    dg.Definitions(assets=sources, sensors=alerts),
    visit_reports(DATA / "checked_visits"),
)
