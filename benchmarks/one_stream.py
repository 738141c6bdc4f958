"""What the code locations of benchmarks of a run have: one real stream, and a job that does
nothing, the least that a run can be."""

import os

import dagster as dg

from dagster_sparkscale import ClusterManager, RatioPolicy, StructuredStream, build_defs

STREAM = "bench"


@dg.op
def nothing() -> None:
    """The least a run can do."""


@dg.job(executor_def=dg.in_process_executor)
def empty() -> None:
    nothing()


def one_stream_on(cluster: ClusterManager) -> dg.Definitions:
    stream = StructuredStream(
        name=STREAM,
        program=os.path.join(os.path.dirname(__file__), "programs", "rate.py"),
        batch_interval="5s",
        executor_memory="512m",
        autoscale=RatioPolicy(max_executors=2),
    )
    return dg.Definitions.merge(
        build_defs([stream], cluster, autoscaler_running=False),
        dg.Definitions(jobs=[empty]),
    )
