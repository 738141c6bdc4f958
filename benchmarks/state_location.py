"""The code location of `state`."""

import os
from pathlib import Path

import dagster as dg

from dagster_sparkscale import LocalCluster, State, StructuredStream, build_defs
from dev.runs import MARK

FOLDER = Path(os.environ["SPARKSCALE_BENCH_FOLDER"])
WAY = os.environ.get("SPARKSCALE_BENCH_WAY", "in place")
COUNT = os.environ["SPARKSCALE_BENCH_KEYS"]
GROUPS = 16
INTERVAL = 5
"""Seconds from batch to batch: beside a stream that has nothing to spare nothing is done."""
PROGRAMS = Path(__file__).parent / "programs"


def stream(
    name: str, program: str, *arguments: str, state: State | None = None
) -> StructuredStream:
    """One with two executors of one core."""
    return StructuredStream(
        name=name,
        program=str(PROGRAMS / program),
        arguments=arguments,
        batch_interval=INTERVAL,
        executors=2,
        executor_memory="2g",
        driver_memory="2g",
        spark_conf={"spark.cores.max": "2"},
        checkpoint_location=str(FOLDER / "streams" / name),
        recovery=None,
        state=state,
    )


def cluster() -> LocalCluster:
    return LocalCluster(
        state_dir=str(FOLDER / "spark"),
        workers=1,
        cores_per_worker=2,
        memory_per_worker="6g",
        pass_environment=[MARK],
    )


KEYS = stream(
    *("keys", "keys.py", str(FOLDER / "data"), COUNT, str(INTERVAL)),
    state=State(
        key_groups=GROUPS,
        partitions=4,
        within="1h",
        beside_rows=0 if WAY == "beside the stream" else 2 * 10**9,
    ),
)

defs: dg.Definitions = build_defs([KEYS], cluster(), autoscaler_running=False)
