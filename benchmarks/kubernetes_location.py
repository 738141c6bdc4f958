"""The code location of `clusters`."""

import os

from benchmarks.one_stream import one_stream_on
from dagster_sparkscale import KubernetesCluster

defs = one_stream_on(
    KubernetesCluster(
        image="spark",
        kubeconfig=os.environ["SPARKSCALE_BENCH_KUBECONFIG"],
        # Executors are asked for as soon as Spark allows it to be.
        spark_conf={"spark.kubernetes.allocation.batch.delay": "200ms"},
    )
)
