"""A day of many streams under several sensors, in fast motion: outages of agents, of the state
folder and of Dagster's storage, deploys with another number of shards, streams that need more.

Agents are real and answer by HTTP, all from one process; sensors, the cluster manager and the event
log are real. A minute passes by the clocks of both processes; a tick has 6 s, and not 32, up to a
thousand streams. What is asked for is not carried out: so it is asked for again, which is how a
lost request shows.

`SOAK_STREAMS` says how many streams there are; a tenth of `--minutes` is a day.
"""

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
import psutil
import pytest

from benchmarks.pretended import agents, pretend_submitted
from benchmarks.sensor_tick import Clock, stream_of
from benchmarks.ten_thousand import MODULE
from dagster_sparkscale import StandaloneCluster, build_defs
from dagster_sparkscale import definitions as definitions_module
from dagster_sparkscale.clusters.agents.http import shared_connections
from dagster_sparkscale.declare.drift import declared
from dagster_sparkscale.names import STREAM_TAG, autoscaler
from dagster_sparkscale.observe.history import history
from dagster_sparkscale.watch import tick as tick_module
from dagster_sparkscale.watch.memory import Memory
from dagster_sparkscale.watch.sensor import autoscale_sensors
from dagster_sparkscale.watch.spills import Spills
from dagster_sparkscale.watch.turns import TICK
from tests.soaking import Soak

STREAMS = int(os.environ.get("SOAK_STREAMS", "300"))
DAY = 1440
SECONDS = 6.0 if STREAMS <= 1000 else TICK
"""Of a tick, where Dagster leaves it 32."""
LEAST = -(-STREAMS // 1000)
"""Sensors that there are at least."""
FORGOTTEN = 3
"""Ticks without a fault, one after the other, in which a stream may be missed."""
EVERY, DEPLOYS = 60, 4
"""Minutes from outage to outage, of which there is one of each kind at least; and deploys."""


class Day:
    """What Dagster does of a code location: it ticks, stores, and loads it anew."""

    def __init__(self, folder: Path, process: "subprocess.Popen[bytes]", urls: dict[str, str]):
        self.process, self.folder, self.clock = process, folder, Clock()
        self.names = pretend_submitted(
            folder / "spark", urls, process.pid, declared(stream_of("any"))
        )
        (folder / "home").mkdir()
        self.instance = dg.DagsterInstance.local_temp(str(folder / "home"))
        self.cursors: dict[str, str] = {}
        self.overloaded: set[str] = set()
        self.asked: set[str] = set()
        """Streams of which a run was asked for in this minute."""
        self.stored = 0
        self.storage_fails_after: int | None = None
        self.longest_cursor = 0
        self.deploy(LEAST)

    def deploy(self, shards: int) -> None:
        """Load the code location anew."""
        cluster = StandaloneCluster(
            master="spark://127.0.0.1:7077", state_dir=str(self.folder / "spark")
        )
        self.defs = build_defs([stream_of(name) for name in self.names], cluster, shards=shards)
        self.sensors = [autoscaler("spark_cluster", shard) for shard in range(shards)]
        for sensor in self.sensors:  # as the code server does, before it evaluates any
            self.defs.resolve_sensor_def(sensor)

    def minute(self) -> None:
        self.clock.ahead += 60
        assert self.process.stdin is not None
        line = {"ahead": self.clock.ahead, "overloaded": sorted(self.overloaded)}
        self.process.stdin.write(json.dumps(line).encode() + b"\n")
        self.process.stdin.flush()
        shared_connections().close()
        self.asked = set()
        with ThreadPoolExecutor(len(self.sensors)) as pool:
            list(pool.map(self._tick, self.sensors))

    def _tick(self, sensor: str) -> None:
        with dg.build_sensor_context(
            instance=self.instance,
            cursor=self.cursors.get(sensor),
            definitions=self.defs,
            resources=self.defs.resources,
        ) as context:
            result: Any = self.defs.resolve_sensor_def(sensor).evaluate_tick(context)
        for number, event in enumerate(result.asset_events):
            if self.storage_fails_after is not None and number >= self.storage_fails_after:
                return  # Dagster drops the tick: no run, and the cursor of before
            self.instance.report_runless_asset_event(event)
            self.stored += 1
        self.cursors[sensor] = result.cursor
        self.longest_cursor = max(self.longest_cursor, len(result.cursor))
        self.asked |= {request.tags[STREAM_TAG] for request in result.run_requests or ()}

    def minutes(self, names: list[str]) -> dict[str, list[int]]:
        """When each stream was looked at, stored or not."""
        waiting: dict[str, set[int]] = {name: set() for name in names}
        for sensor in self.sensors:
            memory = Memory.load(self.cursors.get(sensor))
            lost = Spills().restore(memory, self.instance, dg.AssetKey(["fleet"]), "", self.clock())
            assert lost is None, lost
            for name in waiting.keys() & memory.streams.keys():
                waiting[name] |= {minute.at for minute in memory.streams[name].minutes}
        for name in names:
            with suppress(LookupError):  # nothing of it is stored yet
                stored = history(self.instance, dg.AssetKey([name]), 0)
                waiting[name] |= {minute.at for minute in stored}
        return {name: sorted(found) for name, found in waiting.items()}

    @contextmanager
    def agents_hang(self) -> Iterator[None]:
        os.kill(self.process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.process.pid, signal.SIGCONT)

    @contextmanager
    def the_folder_is_gone(self) -> Iterator[None]:
        streams, away = self.folder / "spark/streams", self.folder / "away"
        streams.rename(away)
        streams.write_text("a file where a folder was: it can't be listed")
        try:
            yield
        finally:
            streams.unlink()
            away.rename(streams)

    @contextmanager
    def storage_fails(self) -> Iterator[None]:
        self.storage_fails_after = 7
        try:
            yield
        finally:
            self.storage_fails_after = None


@pytest.fixture
def day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Day]:
    monkeypatch.setattr(
        definitions_module, "autoscale_sensors", partial(autoscale_sensors, seconds=SECONDS)
    )
    with agents(STREAMS, MODULE) as (process, urls):
        made = Day(tmp_path, process, urls)
        monkeypatch.setattr("time.time", made.clock)
        monkeypatch.setattr(tick_module, "sensor_cursors", lambda *_: [*made.cursors.items()])
        yield made


def test_no_stream_is_forgotten_and_no_decision_is_lost(day: Day, soak: Soak) -> None:
    chance, me, sizes = soak.chance, psutil.Process(), list[int]()
    faults = (day.agents_hang, day.the_folder_is_gone, day.storage_fails)
    calm: list[int] = []
    """When ticks began that no fault had a part in."""
    waiting_since: dict[str, int] = {}
    """Streams that are overloaded, and minutes since then in which they could be looked at."""
    minute, until = 0, min(DAY, int(soak.minutes * DAY / 10))
    between = max(1, min(EVERY, until // (len(faults) + 1)))
    outages = [
        (chance.randrange(between * number, between * (number + 1)), faults[number % 3])
        for number in range(1, until // between)
    ]
    deploys = [until * (2 * number + 1) // (2 * DEPLOYS) for number in range(DEPLOYS)]
    while minute < until:
        if deploys and minute >= deploys[0]:
            del deploys[0]
            day.deploy(
                chance.choice([1, 2, 3, 5, 10]) if LEAST == 1 else LEAST + chance.randrange(4)
            )
        if outages and minute >= outages[0][0]:
            with outages.pop(0)[1]():
                for _ in range(chance.randint(1, 4)):
                    day.minute()
                    minute += 1
        if chance.random() < 0.2:
            name = chance.choice(day.names)
            day.overloaded.add(name)
            waiting_since.setdefault(name, 0)
        calm.append(int(day.clock()) + 60)
        day.minute()
        minute += 1
        for name in [*waiting_since]:
            waiting_since[name] += 1
            if name in day.asked:
                day.overloaded.discard(name)
                del waiting_since[name]
            assert waiting_since.get(name, 0) <= 5, f"{name}: nothing is asked for"
        if minute // between > len(sizes):
            sizes.append(me.memory_info().rss >> 20)
            print(f"minute {minute}: {sizes[-1]} MB, {day.stored} events", flush=True)
    for name, looked in day.minutes(day.names[:: max(1, STREAMS // 200)]).items():
        # A look is at the beginning of its tick, or after it.
        for before, after in itertools.pairwise([0, *looked, sys.maxsize]):
            missed = sum(before < at <= after for at in calm) - (after in looked)
            assert missed <= FORGOTTEN, f"{name}: not seen in {missed} ticks from {before} on"
    print(f"longest cursor {day.longest_cursor}, memory {sizes} MB")
    if len(sizes) >= 8:
        assert sizes[-1] <= 1.1 * sizes[len(sizes) // 2], f"memory grows: {sizes} MB"
