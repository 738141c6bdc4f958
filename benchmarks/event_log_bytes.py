"""What streams leave in Dagster's storage on a day: bytes a stream, on SQLite with its indexes.

Real are the sensor, the jobs, the cluster manager, HTTP and Dagster's storage. The streams are
simulated behind their agents: a batch every ten seconds, that takes as long as the hour's load
makes it on the executors there are. Nights are quiet. The policy scales with the load, each rescale
is a run, and all that the instance keeps of it counts, runs and their logs included. A tick's own
record, which Dagster purges, does not; the cursor in it is told in the detail.

A day passes in a minute or two: the clock of this process is set.
"""

import math
import os
import random
import sqlite3
import tempfile
import threading
from pathlib import Path
from typing import Any
from unittest.mock import patch

import dagster as dg

from benchmarks.agents import TOKEN
from benchmarks.figures import Figure
from benchmarks.pretended import pretend_submitted, tick_context
from dagster_sparkscale import RatioPolicy, StandaloneCluster, StructuredStream, build_defs
from dagster_sparkscale.declare.drift import declared
from dagster_sparkscale.driver.agent import Agent
from dagster_sparkscale.driver.backpressure.rates import Rates
from dagster_sparkscale.driver.begin.options import Options
from dagster_sparkscale.driver.executors.control import ExecutorControl
from dagster_sparkscale.driver.executors.guard import Guard
from dagster_sparkscale.driver.main import compose
from dagster_sparkscale.driver.part import Core
from dagster_sparkscale.driver.server import Server
from dagster_sparkscale.driver.spark.looks import Look
from dagster_sparkscale.driver.wire import Batch, Executor, Query, Spark
from dagster_sparkscale.private_dagster import RUN_KEY_TAG

STREAMS = 20
"""Among which the fleet's own events are shared out: 150 a day, of a page or two each."""
INTERVAL = 10
DAY = 24 * 60
"""Minutes."""


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="sparkscale-bench-") as name:
        clock = _Clock()
        with patch("time.time", clock):
            return [_Day(Path(name), clock).measure()]


class _Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0 // 86400 * 86400

    def __call__(self) -> float:
        return self.now


def demand(minute: int) -> float:
    """Executors that the load of a minute of the day keeps busy: with R below 0.9, three are needed
    by day, and one at night."""
    by_day = max(0.0, math.sin((minute / DAY - 0.25) * 2 * math.pi))
    return 0.3 + 2.1 * math.sqrt(by_day)


class _Executors(ExecutorControl):
    """Executors that are there as soon as they are asked for."""

    def __init__(self) -> None:
        self.target = 1
        self.routes = {("PUT", "/v1/executors"): self._set_target}
        self.look = Look("executors", self.answer)

    def guard_by(self, guard: Guard) -> None:
        """None is ever removed."""

    def set_target(self, target: int, operation: int | None = None) -> None:
        self._admission.operations.admit(operation)
        self.target = target

    def answer(self) -> Spark:
        executors = tuple(
            Executor(str(number), f"worker-{number % 3}.example.com", 2, active_tasks=1)
            for number in range(self.target)
        )
        count = len(executors)
        return Spark(age=0.0, registered=count, requested=count, executors=executors)

    @property
    def bound(self) -> None:
        """There is no Spark."""


class _Simulated(Agent):
    """The agent of a stream whose batches take as long as the load makes them."""

    def __init__(self, name: str, clock: _Clock) -> None:
        options = Options(
            stream=name,
            epoch=1,
            interval_ms=INTERVAL * 1000,
            initial_executors=1,
            max_executors=8,
            token=TOKEN,
            program=Path("none.py"),
        )
        self._simulated = _Executors()
        core = Core(options, self._simulated)
        super().__init__(core, compose(core, Rates()))
        self._simulated._admission = self.admission
        self._clock = clock
        self._random = random.Random(name)
        self.admission.phase = "running"
        self.admission.attached = True
        self._seconds = 0.0

    def pass_minute(self, minute: int) -> None:
        for batch in range(60 // INTERVAL):
            busy = demand(minute) * self._random.uniform(0.93, 1.07)
            self._seconds = INTERVAL * busy / self._simulated.target
            self.history.add(
                Batch(
                    query="counts",
                    completed_at=self._clock() - INTERVAL * batch,
                    processing_ms=round(1000 * self._seconds),
                    scheduling_ms=self._random.randint(0, 40),
                    records=round(9000 * busy),
                )
            )

    def _refresh(self) -> None:
        """Nothing to look at: it is told what happens."""

    def _queries(self) -> tuple[Query, ...]:
        behind = round(1000 * (self._seconds + self._random.uniform(0, 3)))
        return (
            Query(
                "counts",
                True,
                interval_ms=INTERVAL * 1000,
                backlog_records=self._random.randint(0, 9000),
                behind_ms=behind,
                source_shards=8,
                trigger="processing time",
                heard_at=self._clock(),
            ),
        )


class _Day:
    """A day of `STREAMS` streams."""

    def __init__(self, folder: Path, clock: _Clock) -> None:
        self._clock = clock
        self._agents = [_Simulated(f"stream_{number}", clock) for number in range(STREAMS)]
        urls = {}
        for agent in self._agents:
            server = Server("127.0.0.1", 0, agent, lambda graceful, timeout: None)
            urls[agent.options.stream] = f"http://127.0.0.1:{server.server_port}"
            threading.Thread(target=server.serve_forever, daemon=True).start()
        streams = [
            StructuredStream(
                name=name,
                program="none.py",
                batch_interval=INTERVAL,
                autoscale=RatioPolicy(max_executors=8, max_lag="1 min"),
            )
            for name in urls
        ]
        pretend_submitted(folder / "spark", urls, os.getpid(), declared(streams[0]))
        self._defs = build_defs(
            streams,
            StandaloneCluster(master="spark://127.0.0.1:7077", state_dir=str(folder / "spark")),
        )
        self._sensor = self._defs.resolve_sensor_def("autoscaler")
        self._home = folder / "home"
        self._home.mkdir()
        self._instance = dg.DagsterInstance.local_temp(str(self._home))
        self._cursor: str | None = None
        self._counts = {"materializations": 0, "observations": 0, "checks": 0, "runs": 0}
        self._cursors = 0

    def measure(self) -> Figure:
        self._tick(0)
        # What there is without any stream is not theirs.
        before = self._bytes()
        self._counts = dict.fromkeys(self._counts, 0)
        for minute in range(1, DAY + 1):
            self._tick(minute)
        grown = {part: size - before[part] for part, size in self._bytes().items()}
        return Figure(
            name="event_log_bytes",
            value=round(sum(grown.values()) / STREAMS),
            unit="bytes a stream and day",
            goal=2_000_000,
            better="lower",
            detail={
                "streams": STREAMS,
                **{f"{part}_bytes": round(size / STREAMS) for part, size in grown.items()},
                **{what: round(count / STREAMS, 1) for what, count in self._counts.items()},
                "cursor_bytes_a_tick": round(self._cursors / DAY / STREAMS),
            },
        )

    def _tick(self, minute: int) -> None:
        self._clock.now += 60
        for agent in self._agents:
            agent.pass_minute(minute)
        with tick_context(self._defs, self._instance, self._cursor) as context:
            result: Any = self._sensor.evaluate_tick(context)
        self._cursor = result.cursor
        self._cursors += len(result.cursor)
        for event in result.asset_events:
            self._instance.report_runless_asset_event(event)
            kind = type(event).__name__.removeprefix("Asset").lower().replace("check", "")
            self._counts[{"evaluation": "checks"}.get(kind, f"{kind}s")] += 1
        for request in result.run_requests or ():
            self._counts["runs"] += 1
            job = self._defs.resolve_job_def(request.job_name)
            # As the daemon tags it: without its key, it would be taken for a person's.
            tags = {**request.tags, RUN_KEY_TAG: request.run_key}
            job.execute_in_process(
                run_config=request.run_config, tags=tags, instance=self._instance
            )

    def _bytes(self) -> dict[str, int]:
        """By part of the instance's storage, write-ahead logs written first."""
        sizes = {"events": 0, "runs": 0, "logs": 0}
        for path in self._home.rglob("*.db"):
            with sqlite3.connect(path) as connection:
                connection.execute("pragma wal_checkpoint(truncate)")
            connection.close()
        for path in self._home.rglob("*"):
            if path.is_file():
                part = "events" if path.name in ("index.db", ".db") else "runs"
                sizes["logs" if path.suffix != ".db" and path.name != ".db" else part] += (
                    path.stat().st_size
                )
        return sizes
