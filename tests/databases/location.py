"""Streams whose drivers have ended, as a code server loads them for a daemon."""

import os

from dagster_sparkscale import RatioPolicy, StandaloneCluster, StructuredStream, build_defs

NUMBER = int(os.environ.get("SPARKSCALE_TEST_STREAMS", "3"))
NAMES = [f"clicks_of_region_{number}" for number in range(NUMBER)]
STREAMS = [
    StructuredStream(
        name=name,
        program=__file__,
        batch_interval="10s",
        autoscale=RatioPolicy(max_executors=8),
    )
    for name in NAMES
]
CLUSTER = StandaloneCluster(
    master="spark://127.0.0.1:7077", state_dir=os.environ.get("SPARKSCALE_TEST_STATE", "/nowhere")
)
defs = build_defs(STREAMS, CLUSTER)
