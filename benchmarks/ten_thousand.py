"""A tick of ten thousand streams, evaluated by ten sensors of one code location at once.

    python -m benchmarks.ten_thousand COUNT

serves their agents at one port, each at an address of its own within 127.0.0.0/8: so many listening
sockets no machine has, where drivers have a host each. It reads lines of JSON, by which somebody
drives them: by how much the clock is `ahead`, and which streams are `overloaded`. Real are the
sensors, HTTP, the cluster manager and Dagster's storage; ticks are a minute apart by the clock of
this process.

Ours: the processor time of this process for ten sensors' evaluations on threads, as Dagster's code
server has them, and for storing what they tell. Peer: the same for storing an observation of each
stream with the values of one minute.
"""

import copy
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

import dagster as dg

from benchmarks import agents as pretended
from benchmarks.agents import SteadyAgent
from benchmarks.figures import Figure
from benchmarks.pretended import agents, pretend_submitted, tick_context
from benchmarks.sensor_tick import MINUTE, Clock, stream_of
from dagster_sparkscale import StandaloneCluster, build_defs, definitions
from dagster_sparkscale.clusters.agents.http import shared_connections
from dagster_sparkscale.declare.drift import declared
from dagster_sparkscale.driver.agent import Agent
from dagster_sparkscale.driver.door import Door
from dagster_sparkscale.driver.server import MAX_CONNECTIONS, MAX_STRANGERS, Handler, Server
from dagster_sparkscale.driver.wire import Batch
from dagster_sparkscale.names import autoscaler
from dagster_sparkscale.watch.memory import Memory
from dagster_sparkscale.watch.sensor import autoscale_sensors

MODULE = "benchmarks.ten_thousand"
STREAMS, SHARDS = 10_000, 10
TICKS = 5
"""After the first, which tells of all streams. Each tells of a tenth of them."""
BATCHES = 12
"""Of each stream's history: two minutes are all that a tick asks for."""
OBSERVED = 1000
"""Streams of which an observation is stored for the peer: each costs the same."""


def measure() -> list[Figure]:
    clock = Clock()
    with (
        tempfile.TemporaryDirectory(prefix="sparkscale-bench-") as name,
        agents(STREAMS, MODULE) as (process, urls),
        patch("time.time", clock),
    ):
        folder = Path(name)
        names = pretend_submitted(folder / "spark", urls, process.pid, declared(stream_of("any")))
        fleet = _Fleet(folder, names)
        fleet.tell_of_all()
        for _ in range(10):  # which read back what was told
            _minute_passes(clock, fleet.tick()[1])
        theirs = fleet.storing()
        ours, wall, events, seen = [], [], [], []
        for _ in range(TICKS):
            seconds, took, told = fleet.tick()
            wall.append(round(took, 1))
            ours.append(seconds)
            events.append(told)
            seen.append(fleet.evaluated())
            _minute_passes(clock, took)
        assert min(seen) >= STREAMS / 2, f"the machine was too busy: {seen} were looked at in time"
        # Who was not looked at in time has cost little.
        each = [seconds / count for seconds, count in zip(ours, seen, strict=True)]
        return [
            Figure(
                name="tick_10000",
                value=round(statistics.fmean(each) * STREAMS / theirs, 3),
                unit="ratio",
                goal=0.4,
                better="lower",
                detail={
                    "streams": STREAMS,
                    "shards": SHARDS,
                    "ours": "processor time of evaluating all streams over HTTP, ten sensors at "
                    "once, and of storing what is told, for each that was looked at in time: mean "
                    "of the ticks",
                    "theirs": "processor time of storing an observation of each stream, with the "
                    "values of a minute",
                    "ours_seconds": [round(seconds, 2) for seconds in ours],
                    "theirs_seconds": round(theirs, 2),
                    "clock_seconds": wall,
                    "events": events,
                    "evaluated": seen,
                    "longest_cursor_bytes": fleet.longest_cursor,
                },
            )
        ]


def _minute_passes(clock: Clock, took: float) -> None:
    """The next tick begins a minute after the last one, which `took` so many seconds, by the clock
    that is set forward."""
    clock.ahead += max(0.0, 60 - took)


class _Fleet:
    def __init__(self, folder: Path, names: list[str]) -> None:
        self._folder, self._names = folder, names
        (folder / "home").mkdir()
        self._instance = dg.DagsterInstance.local_temp(str(folder / "home"))
        self._cursors: dict[str, str | None] = {}
        self._observations = [
            dg.AssetObservation(name, metadata=asdict(MINUTE)) for name in names[:OBSERVED]
        ]

    def _load(self) -> dg.Definitions:
        """The code location, loaded anew."""
        cluster = StandaloneCluster(
            master="spark://127.0.0.1:7077", state_dir=str(self._folder / "spark")
        )
        return build_defs([stream_of(name) for name in self._names], cluster, shards=SHARDS)

    @property
    def longest_cursor(self) -> int:
        return max(len(cursor or "") for cursor in self._cursors.values())

    def evaluated(self) -> int:
        """How many streams the last tick has evaluated."""
        streams = [
            each
            for cursor in self._cursors.values()
            for each in Memory.load(cursor).streams.values()
        ]
        return sum(time.time() - each.decided_at < 60 for each in streams)

    def tell_of_all(self) -> None:
        """Tell of each stream for the first time, in one tick with as much time as that takes, and
        have it as though that had been done in the ten minutes before, a tenth of them in each.
        Then the code location is loaded anew, and ticks have the usual time."""
        hours = partial(autoscale_sensors, seconds=7200.0)
        with patch.object(definitions, "autoscale_sensors", hours):
            self._defs = self._load()
        self.tick()
        now = time.time()  # storing has taken minutes
        for sensor, cursor in self._cursors.items():
            memory = Memory.load(cursor)
            for number, known in enumerate(memory.streams.values()):
                known.told = replace(known.told, at=now - 60 * (number % 10))
            self._cursors[sensor] = memory.dump(memory.streams)
        self._defs = self._load()

    def tick(self) -> tuple[float, float, int]:
        """Seconds of the processor and of the clock for a tick of all sensors, and how many events
        were stored."""
        shared_connections().close()
        begun, used = time.perf_counter(), time.process_time()
        with ThreadPoolExecutor(SHARDS) as pool:
            sensors = [autoscaler("spark_cluster", shard) for shard in range(SHARDS)]
            told = sum(pool.map(self._evaluate, sensors))
        return time.process_time() - used, time.perf_counter() - begun, told

    def _evaluate(self, name: str) -> int:
        with tick_context(self._defs, self._instance, self._cursors.get(name)) as context:
            result: Any = self._defs.resolve_sensor_def(name).evaluate_tick(context)
        for event in result.asset_events:
            self._instance.report_runless_asset_event(event)
        self._cursors[name] = result.cursor
        return len(result.asset_events)

    def storing(self) -> float:
        """Seconds of the processor for storing an observation of each stream."""
        begun = time.process_time()
        for event in self._observations:
            self._instance.report_runless_asset_event(event)
        return (time.process_time() - begun) * STREAMS / OBSERVED


class _Driven(SteadyAgent):
    """An agent whose batches take what somebody says."""

    overloaded: ClassVar[set[str]] = set()
    """The streams whose batches take longer than their interval."""

    def _complete_batches(self) -> None:
        took = 20_000 if self.options.stream in self.overloaded else 5_000
        # A clock that jumps leaves no more batches behind than a tick asks for.
        self._next = max(self._next, time.time() - 10 * BATCHES)
        while self._next < time.time():
            self.history.add(Batch("q", self._next, took, 0, 1_000))
            self._next += 10


class _OneRequest(Handler):
    """A connection of which one request is answered. The next comes a minute later, when any agent
    would have closed it."""

    def handle(self) -> None:
        self.handle_one_request()


class _AtOnePort(Server):
    """The servers of many agents, told apart by the address that a connection was made to."""

    request_queue_size = 4096

    def __init__(self, by_address: Mapping[str, Agent]) -> None:
        super().__init__("0.0.0.0", 0, next(iter(by_address.values())), lambda *_: None)
        self._by_address = by_address
        # A thread for each connection, as ten thousand hosts have it, would hold the others up.
        self._threads = ThreadPoolExecutor(4)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._threads.submit(self.process_request_thread, request, client_address)

    def finish_request(self, request: Any, client_address: Any) -> None:
        own = copy.copy(self)
        own.agent = self._by_address[request.getsockname()[0]]
        own.door = Door(MAX_STRANGERS, known=MAX_CONNECTIONS)  # as many as an agent may have
        own.door.came(request)
        _OneRequest(request, client_address, own)


def main(count: int) -> None:
    pretended.BATCHES = BATCHES
    clock, by_address, urls = Clock(), {}, {}
    with patch("time.time", clock):
        for number in range(count):
            address = f"127.1.{number // 250}.{number % 250 + 1}"
            by_address[address] = pretended.agent(f"stream_{number}", _Driven)
        server = _AtOnePort(by_address)
        server.start(3600.0)
        for address, agent in by_address.items():
            urls[agent.options.stream] = f"http://{address}:{server.server_port}"
        print(json.dumps(urls), flush=True)
        for line in sys.stdin:
            told = json.loads(line)
            clock.ahead, _Driven.overloaded = told["ahead"], set(told["overloaded"])


if __name__ == "__main__":
    main(int(sys.argv[1]))
