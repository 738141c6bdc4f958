"""A thousand streams under one sensor, where not all is well; and ten thousand under ten sensors
(`ten_thousand.py`).

    python -m benchmarks.scale COUNT

serves their agents, whose numbers waver as those of real streams do. Real are the sensor, HTTP, the
cluster manager and Dagster's storage; ticks are a minute apart by the clocks of both processes.

- `first_tick`: all streams are new, and every tenth wants more executors. Dagster launches runs
  once the events of their tick are stored: the seconds until then, against those until all that the
  first tick has found is stored, which takes several ticks.
- `cursor_bytes`: the longest cursor of all ticks.
- `tick_silent`: the process of all agents is stopped, so that each connection hangs. The longest
  tick, storing included, against the 60 s after which Dagster would end its evaluation.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import dagster as dg

from benchmarks import ten_thousand
from benchmarks.agents import TOKEN, SteadyAgent
from benchmarks.figures import Figure
from benchmarks.pretended import agents, pretend_submitted, tick_context
from benchmarks.sensor_tick import Clock, stream_of
from dagster_sparkscale import StandaloneCluster, build_defs
from dagster_sparkscale.clusters.agents.http import shared_connections
from dagster_sparkscale.declare.drift import declared
from dagster_sparkscale.driver.begin.options import Options
from dagster_sparkscale.driver.server import Server
from dagster_sparkscale.driver.wire import Batch, Query
from dagster_sparkscale.observe.history import history
from dagster_sparkscale.watch.memory import Memory
from dagster_sparkscale.watch.spills import Spills

STREAMS = 1000
WAVERING, SILENT = 25, 6
"""Ticks."""
DAGSTER = 60.0
"""Seconds after which Dagster ends an evaluation."""
_MINUTE = 60.0


def measure() -> list[Figure]:
    clock = Clock()
    with (
        tempfile.TemporaryDirectory(prefix="sparkscale-bench-") as name,
        agents(STREAMS, "benchmarks.scale") as (process, urls),
        patch("time.time", clock),
    ):
        fleet = _Fleet(Path(name), process, urls, clock)
        figures = [fleet.first_tick()]
        for _ in range(WAVERING):
            fleet.tick()
        figures.append(fleet.silent())
        fleet.assert_that_no_minute_is_lost()
        figures.append(fleet.cursor_bytes())
    return [*figures, *ten_thousand.measure()]


class _Fleet:
    def __init__(
        self, folder: Path, process: subprocess.Popen[bytes], urls: dict[str, str], clock: Clock
    ) -> None:
        self._process, self._clock = process, clock
        self._names = pretend_submitted(
            folder / "spark", urls, process.pid, declared(stream_of("any"))
        )
        self._defs = build_defs(
            [stream_of(name) for name in self._names],
            StandaloneCluster(master="spark://127.0.0.1:7077", state_dir=str(folder / "spark")),
        )
        self._sensor = self._defs.resolve_sensor_def("autoscaler")
        (folder / "home").mkdir()
        self._instance = dg.DagsterInstance.local_temp(str(folder / "home"))
        self._cursor: str | None = None
        self._ticks: list[int] = []
        """When they began, seconds since the epoch."""
        self._cursors: list[int] = []

    def tick(self, silent: bool = False) -> "_Tick":
        """One tick, a minute after the one before by all clocks."""
        self._clock.ahead += _MINUTE
        if not silent:
            assert self._process.stdin is not None
            self._process.stdin.write(b"%f\n" % self._clock.ahead)
            self._process.stdin.flush()
        shared_connections().close()
        with tick_context(self._defs, self._instance, self._cursor) as context:
            self._ticks.append(int(time.time()))
            begun = time.perf_counter()
            result: Any = self._sensor.evaluate_tick(context)
            evaluated = time.perf_counter()
            for event in result.asset_events:
                self._instance.report_runless_asset_event(event)
            stored = time.perf_counter()
        self._cursor = result.cursor
        self._cursors.append(len(result.cursor.encode()))
        requests, events = len(result.run_requests or ()), len(result.asset_events)
        return _Tick(evaluated - begun, stored - begun, requests, events)

    def first_tick(self) -> Figure:
        first = self.tick()
        assert first.requests == STREAMS // 10, "not every stream that wants more has asked"
        whole = [first]
        while any(not each.told.at for each in self._memory.streams.values()):
            whole.append(self.tick())
        return Figure(
            name="first_tick",
            value=round(first.seconds / sum(each.seconds for each in whole), 3),
            unit="ratio",
            goal=0.2,
            better="lower",
            detail={
                "streams": STREAMS,
                "ours": "the first tick until Dagster has stored its events and launches runs",
                "theirs": "all ticks until each stream was told of, with what they store",
                "requests": first.requests,
                "evaluation_seconds": [round(each.evaluation, 1) for each in whole],
                "seconds": [round(each.seconds, 1) for each in whole],
                "events": [each.events for each in whole],
            },
        )

    def silent(self) -> Figure:
        os.kill(self._process.pid, signal.SIGSTOP)
        try:
            ticks = [self.tick(silent=True) for _ in range(SILENT)]
        finally:
            os.kill(self._process.pid, signal.SIGCONT)
        return Figure(
            name="tick_silent",
            value=round(max(each.seconds for each in ticks) / DAGSTER, 3),
            unit="ratio",
            goal=0.7,
            better="lower",
            detail={
                "streams": STREAMS,
                "ours": "the longest of the ticks in which every agent hangs, storing included",
                "theirs": "the time after which Dagster ends an evaluation",
                "evaluation_seconds": [round(each.evaluation, 1) for each in ticks],
                "seconds": [round(each.seconds, 1) for each in ticks],
                "events": [each.events for each in ticks],
            },
        )

    def cursor_bytes(self) -> Figure:
        return Figure(
            name="cursor_bytes",
            value=max(self._cursors),
            unit="bytes",
            goal=65_536,
            better="lower",
            detail={"streams": STREAMS, "of_each_tick": self._cursors},
        )

    def assert_that_no_minute_is_lost(self) -> None:
        """Of ten streams, the minutes that are stored or wait are those of the ticks in which they
        were looked at: all but of the silent ones."""
        memory = self._memory
        key = dg.AssetKey(["fleet"])
        nobody = ""  # this sensor ticks outside of a code location
        lost = Spills().restore(memory, self._instance, key, nobody, time.time())
        assert lost is None, lost
        for name in self._names[:: STREAMS // 10]:
            seen = {each.at for each in history(self._instance, name, 0)}
            seen |= {each.at for each in memory.of(name).minutes}
            missing = set(self._ticks[:-SILENT]) - seen
            assert not missing, f"{name}: {len(missing)} minutes are lost"

    @property
    def _memory(self) -> Memory:
        return Memory.load(self._cursor)


class _Tick:
    def __init__(self, evaluation: float, seconds: float, requests: int, events: int) -> None:
        self.evaluation, self.seconds = evaluation, seconds
        self.requests, self.events = requests, events


class _Wavering(SteadyAgent):
    """An agent whose batches take now longer, now shorter, of now more, now fewer records."""

    def __init__(self, options: Options) -> None:
        self._random = random.Random(options.stream)
        self._wants_more = int(options.stream.rpartition("_")[2]) % 10 == 0
        """Until it has answered for the first time."""
        super().__init__(options)

    def _complete_batches(self) -> None:
        while self._next < time.time():
            took = 20_000 if self._wants_more else self._random.randint(3_500, 7_000)
            records = self._random.randint(500, 2_000)
            self.history.add(Batch("q", self._next, took, self._random.randint(0, 40), records))
            self._next += 10

    def status(self, *which: Any, **how: Any) -> Any:
        answer = super().status(*which, **how)
        self._wants_more = False
        return answer

    def _queries(self) -> tuple[Query, ...]:
        (query,) = super()._queries()
        behind, waiting = self._random.randint(0, 20_000), self._random.randint(0, 9_000)
        return (replace(query, backlog_records=waiting, behind_ms=behind, source_shards=8),)


def main(count: int) -> None:
    clock = Clock()
    with patch("time.time", clock):
        urls = {}
        for number in range(count):
            options = Options(
                stream=f"stream_{number}",
                epoch=1,
                interval_ms=10_000,
                initial_executors=4,
                max_executors=8,
                token=TOKEN,
                program=Path("none.py"),
            )
            made = _Wavering(options)
            made.admission.phase, made.admission.attached = "running", True
            server = Server("127.0.0.1", 0, made, lambda graceful, timeout: None)
            urls[options.stream] = f"http://127.0.0.1:{server.server_port}"
            threading.Thread(target=server.serve_forever, args=(3600.0,), daemon=True).start()
        print(json.dumps(urls), flush=True)
        for line in sys.stdin:
            clock.ahead = float(line)


if __name__ == "__main__":
    main(int(sys.argv[1]))
