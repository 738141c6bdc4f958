"""The code location of `clusters`: one real stream on Kubernetes, and a job that does nothing."""

import os

import dagster as dg

from benchmarks.nothing import empty
from dagster_sparkscale import KubernetesCluster, RatioPolicy, StructuredStream, build_defs

defs = dg.Definitions.merge(
    build_defs(
        [
            StructuredStream(
                name="bench",
                program=os.path.join(os.path.dirname(__file__), "programs", "rate.py"),
                batch_interval="5s",
                executor_memory="512m",
                autoscale=RatioPolicy(max_executors=2),
            )
        ],
        KubernetesCluster(
            image="spark",
            kubeconfig=os.environ["SPARKSCALE_BENCH_KUBECONFIG"],
            # Executors are asked for as soon as Spark allows it to be.
            spark_conf={"spark.kubernetes.allocation.batch.delay": "200ms"},
        ),
        autoscaler_running=False,
    ),
    dg.Definitions(jobs=[empty]),
)
