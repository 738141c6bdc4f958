"""What a tick of the autoscaler costs above the storing of its observations.

Ours: the sensor's evaluation of n streams, each asked over HTTP through the real cluster manager,
and the storing of the events it returns. Peer: Dagster storing the same observations with no
evaluation at all. Both on the same SQLite instance, in turn.

The connections to the agents are closed before each tick, as a minute between two ticks would.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg

from benchmarks.agents import TOKEN
from benchmarks.figures import Figure, paired_ratio
from dagster_sparkscale import RatioPolicy, StandaloneCluster, StructuredStream, build_defs
from dagster_sparkscale.clusters import leases, starts
from dagster_sparkscale.clusters.agent_http import shared_connections
from dagster_sparkscale.clusters.host import processes
from dagster_sparkscale.clusters.host.drivers import HostedDriver
from dagster_sparkscale.clusters.host.folder_store import FolderStore
from dagster_sparkscale.clusters.host.supervisor import birth, write_json
from dagster_sparkscale.names import FLEET

REPETITIONS = {1: 25, 10: 11, 100: 7, 300: 5, 1000: 4}
"""Streams -> pairs measured."""


def measure() -> list[Figure]:
    return [_measure(streams, pairs) for streams, pairs in REPETITIONS.items()]


def _measure(streams: int, pairs: int) -> Figure:
    with (
        tempfile.TemporaryDirectory(prefix="sparkscale-bench-") as name,
        _agents(streams) as agents,
    ):
        folder = Path(name)
        names = _pretend_submitted(folder / "spark", *agents)
        cluster = StandaloneCluster(
            master="spark://127.0.0.1:7077", state_dir=str(folder / "spark")
        )
        tick = _Tick(folder, names, cluster)
        tick.ours()  # warm-up: the first tick also stores checks and materializations
        ours, theirs, looking = [], [], []
        for _ in range(pairs):
            theirs.append(tick.theirs())
            seconds, evaluation = tick.ours()
            ours.append(seconds)
            looking.append(round(evaluation, 4))
        return paired_ratio(
            f"sensor_tick_{streams}",
            ours,
            theirs,
            goal=1.25,
            detail={
                "streams": streams,
                "ours": "evaluate all streams over HTTP, store their observations",
                "theirs": "store the same observations",
                "evaluation_seconds": looking,
            },
        )


class _Tick:
    def __init__(self, folder: Path, names: list[str], cluster: StandaloneCluster) -> None:
        self._defs = build_defs(
            [
                StructuredStream(
                    name=name,
                    program="none.py",
                    batch_interval="10s",
                    autoscale=RatioPolicy(max_executors=8),
                )
                for name in names
            ],
            cluster,
        )
        self._sensor = self._defs.resolve_sensor_def("autoscaler")
        (folder / "home").mkdir()
        self._instance = dg.DagsterInstance.local_temp(str(folder / "home"))
        self._cursor: str | None = None
        self._observations: list[dg.AssetObservation] = []

    def ours(self) -> tuple[float, float]:
        """Seconds of the whole tick, and of its evaluation."""
        shared_connections().close()
        with dg.build_sensor_context(
            instance=self._instance,
            cursor=self._cursor,
            definitions=self._defs,
            resources=self._defs.resources,
        ) as context:
            context.resources  # noqa: B018 - the daemon makes them before it calls the sensor
            begun = time.perf_counter()
            result: Any = self._sensor.evaluate_tick(context)
            evaluated = time.perf_counter()
            for event in result.asset_events:
                self._instance.report_runless_asset_event(event)
            ended = time.perf_counter()
        self._cursor = result.cursor
        self._observations = [
            event
            for event in result.asset_events
            if isinstance(event, dg.AssetObservation) and event.asset_key.path != [FLEET]
        ]
        held = [
            o for o in self._observations if o.metadata["dagster-sparkscale/ratio"].value == 0.5
        ]
        assert len(held) == len(self._observations), "an agent was not heard"
        return ended - begun, evaluated - begun

    def theirs(self) -> float:
        """Seconds of storing the observations of the last tick once more."""
        begun = time.perf_counter()
        for event in self._observations:
            self._instance.report_runless_asset_event(event)
        return time.perf_counter() - begun


@contextmanager
def _agents(count: int) -> Iterator[tuple[int, dict[str, str]]]:
    """The pid of a process with `count` agents, and their URLs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.agents", str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        yield process.pid, json.loads(process.stdout.readline())
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def _pretend_submitted(state: Path, pid: int, urls: dict[str, str]) -> list[str]:
    """Leave on disk what a submission leaves, with the agents' process for a driver."""
    store = FolderStore(state)
    others = starts.Others(lambda _: None, lambda one: leases.hold(store, one, "benchmark", 0))
    for name, url in urls.items():
        with leases.hold(store, name, "benchmark", 0.0) as lease:
            start = starts.begin(store, lease, others, cause="manual", checkpoint=None, declared={})
        submission = HostedDriver(store.folder(name), start.record).files
        submission.create()
        submission.write_private(submission.token, TOKEN)
        write_json(submission.agent, {"url": url, "pid": pid, "host": processes.here()})
        write_json(
            submission.driver,
            {
                "pid": pid,
                "pgid": pid,
                "birth": birth(pid),
                "supervisor_pid": pid,
                "supervisor_birth": birth(pid),
                "host": processes.here(),
                "started_at": time.time(),
            },
        )
    return list(urls)
