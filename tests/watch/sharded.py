"""A code location whose streams run on a cluster in memory, in as many shards as `SHARDS` says."""

import os

from dagster_sparkscale.definitions import build_defs
from tests.fakes import scaled
from tests.in_memory.cluster import World

STREAMS = [scaled(f"stream_{number}", interval=1.0) for number in range(12)]

world = World()
for stream in STREAMS:
    world.run(stream)
defs = build_defs(STREAMS, world.cluster, shards=int(os.environ.get("SHARDS", "1")))
