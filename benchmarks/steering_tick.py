"""What steering costs a tick: 1000 streams with a pin each, against the same without.

Both are evaluated over HTTP through the real cluster manager, as in `sensor_tick`, and what is told
is stored: a tick each, in turn, for half an hour. The entries stand in the record that a look
reads anyway, so a tick must not become slower by them.
"""

import tempfile
from pathlib import Path
from unittest.mock import patch

from benchmarks.figures import Figure, paired_ratio
from benchmarks.pretended import agents, pretend_submitted
from benchmarks.sensor_tick import Clock, Tick, stream_of
from dagster_sparkscale import StandaloneCluster
from dagster_sparkscale.clusters.records.leases import steer
from dagster_sparkscale.clusters.records.steering import Steered, with_entry
from dagster_sparkscale.declare.drift import declared

STREAMS = 1000
MINUTES = 30


def measure() -> list[Figure]:
    clock = Clock()
    with (
        tempfile.TemporaryDirectory(prefix="sparkscale-bench-") as name,
        agents(STREAMS) as (process, urls),
        patch("time.time", clock),
    ):
        steered, plain = (
            _tick(Path(name) / each, process.pid, urls, steer_it=each == "steered")
            for each in ("steered", "plain")
        )
        ours: list[float] = []
        theirs: list[float] = []
        for minute in range(MINUTES):
            clock.ahead += 60
            # In turn, each the first one in every other minute.
            for tick in (steered, plain) if minute % 2 else (plain, steered):
                (ours if tick is steered else theirs).append(tick.ours()[0])
        return [
            paired_ratio(
                "steering_tick",
                ours,
                theirs,
                goal=1.05,
                detail={
                    "streams": STREAMS,
                    "ours": "evaluate all streams, each pinned, and store what is told",
                    "theirs": "the same where none is steered",
                },
            )
        ]


def _tick(folder: Path, pid: int, urls: dict[str, str], *, steer_it: bool) -> Tick:
    folder.mkdir()
    names = pretend_submitted(folder / "spark", urls, pid, declared(stream_of("any")))
    cluster = StandaloneCluster(master="spark://127.0.0.1:7077", state_dir=str(folder / "spark"))
    pin = Steered("steer run 1a2b3c4d", "load test", since=1e9, until=1e10, size=4)
    for name in names if steer_it else ():
        steer(cluster.store(), name, lambda entries: with_entry(entries, "pin", pin, 1e9))
    tick = Tick(folder, names, cluster)
    tick.ours()  # warm-up: the first tick tells of every stream and stores its checks
    return tick
