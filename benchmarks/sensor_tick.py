"""What a tick of the autoscaler costs, against an observation of each stream in each minute.

Ours: the sensor's evaluation of n streams, each asked over HTTP through the real cluster manager,
and the storing of the events it returns: the mean of ten ticks, in which every quiet stream is told
of once. Peer: Dagster storing an observation of every stream with the values of one minute. Both on
the same SQLite instance, in turn, for an hour of ticks.

The connections to the agents are closed before each tick, as a minute between two ticks would. The
clock of this process is set a minute forward for each.
"""

import statistics
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest.mock import patch

import dagster as dg

from benchmarks.figures import Figure, paired_ratio
from benchmarks.pretended import agents, pretend_submitted, tick_context
from dagster_sparkscale import RatioPolicy, StandaloneCluster, StructuredStream, build_defs
from dagster_sparkscale.clusters.agents.http import shared_connections
from dagster_sparkscale.declare.drift import declared
from dagster_sparkscale.observe.minutes import Minute

GOALS = {1: 1.0, 10: 0.5, 100: 0.4, 1000: 0.4}
"""By number of streams. The few pay for what a tick costs by itself."""
TICKS = 10
"""For which a quiet stream is told of once."""
BLOCKS = 6
"""Of ten ticks: an hour."""


def measure() -> list[Figure]:
    return [_measure(streams, goal) for streams, goal in GOALS.items()]


def _measure(streams: int, goal: float) -> Figure:
    clock = Clock()
    with (
        tempfile.TemporaryDirectory(prefix="sparkscale-bench-") as name,
        agents(streams) as (process, urls),
        patch("time.time", clock),
    ):
        folder = Path(name)
        names = pretend_submitted(folder / "spark", urls, process.pid, declared(stream_of("any")))
        cluster = StandaloneCluster(
            master="spark://127.0.0.1:7077", state_dir=str(folder / "spark")
        )
        tick = Tick(folder, names, cluster)
        for _ in range(TICKS):  # the first ones tell of every stream and store its checks
            clock.ahead += 60
            tick.ours()
        ours, theirs, looking, events = [], [], [], []
        for _ in range(BLOCKS):
            theirs.append(tick.theirs())
            block = []
            for _ in range(TICKS):
                clock.ahead += 60
                block.append(tick.ours())
            ours.append(statistics.fmean(seconds for seconds, _, _ in block))
            looking.append(round(statistics.fmean(evaluation for _, evaluation, _ in block), 4))
            events.append(sum(told for _, _, told in block))
        return paired_ratio(
            f"sensor_tick_{streams}",
            ours,
            theirs,
            goal=goal,
            detail={
                "streams": streams,
                "ours": "evaluate all streams over HTTP, store what is told: mean of ten ticks",
                "theirs": "store an observation of each stream, with the values of a minute",
                "evaluation_seconds": looking,
                "events_of_ten_ticks": events,
            },
        )


class Clock:
    """The clock of this process, ahead of the machine's."""

    def __init__(self) -> None:
        self.ahead = 0.0
        self._real = time.time

    def __call__(self) -> float:
        return self._real() + self.ahead


def stream_of(name: str) -> StructuredStream:
    return StructuredStream(
        name=name,
        program="none.py",
        batch_interval="10s",
        autoscale=RatioPolicy(max_executors=8),
    )


MINUTE = Minute(
    at=1_800_000_000,
    state="running",
    epoch=1,
    ratio=0.5,
    lag=4.2,
    registered=4,
    requested=4,
    processing_ms=5000,
    scheduling_ms=12,
    input_rate=100,
    processed_rate=200,
    backlog=1000,
    completed=6,
    failed=0,
    decision="hold",
    reason="R 0.50 of query 'q' is between 0.3 and 0.9",
)


class Tick:
    def __init__(self, folder: Path, names: list[str], cluster: StandaloneCluster) -> None:
        self._defs = build_defs([stream_of(name) for name in names], cluster)
        self._sensor = self._defs.resolve_sensor_def("autoscaler")
        (folder / "home").mkdir()
        self._instance = dg.DagsterInstance.local_temp(str(folder / "home"))
        self._cursor: str | None = None
        self._observations = [dg.AssetObservation(name, metadata=asdict(MINUTE)) for name in names]

    def ours(self) -> tuple[float, float, int]:
        """Seconds of the whole tick and of its evaluation, and how many events it stored."""
        shared_connections().close()
        with tick_context(self._defs, self._instance, self._cursor) as context:
            begun = time.perf_counter()
            result: Any = self._sensor.evaluate_tick(context)
            evaluated = time.perf_counter()
            assert "R 0.50" in result.skip_message, "the agents were not heard"
            for event in result.asset_events:
                self._instance.report_runless_asset_event(event)
            ended = time.perf_counter()
        self._cursor = result.cursor
        return ended - begun, evaluated - begun, len(result.asset_events)

    def theirs(self) -> float:
        """Seconds of storing an observation of each stream."""
        begun = time.perf_counter()
        for event in self._observations:
            self._instance.report_runless_asset_event(event)
        return time.perf_counter() - begun
