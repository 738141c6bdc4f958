"""The code location of `rescale_run`."""

import os

from benchmarks.one_stream import one_stream_on
from dagster_sparkscale import LocalCluster
from dev.runs import MARK

FOLDER = os.environ["SPARKSCALE_BENCH_FOLDER"]

defs = one_stream_on(
    LocalCluster(
        state_dir=FOLDER,
        workers=1,
        cores_per_worker=2,
        memory_per_worker="2g",
        pass_environment=[MARK],
    )
)
