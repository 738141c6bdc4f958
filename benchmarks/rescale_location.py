"""The code location of `rescale_run`: one real stream, and a job that does nothing."""

import os

import dagster as dg

from benchmarks.nothing import empty
from dagster_sparkscale import LocalCluster, RatioPolicy, StructuredStream, build_defs

FOLDER = os.environ["SPARKSCALE_BENCH_FOLDER"]

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
        LocalCluster(state_dir=FOLDER, workers=1, cores_per_worker=2, memory_per_worker="2g"),
        autoscaler_running=False,
    ),
    dg.Definitions(jobs=[empty]),
)
