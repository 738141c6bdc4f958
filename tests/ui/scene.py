"""Two hours of a code location with streams in every state, stored as the sensor tells of them.

Streams and cluster are in memory; the sensor, the runs and the instance are real. The hours pass in
seconds: the clock of this process is set, and ends at the true time.
"""

import math
import random
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import dagster as dg

from dagster_sparkscale import (
    BackpressurePolicy,
    DStream,
    RatioPolicy,
    RecoveryPolicy,
    StructuredStream,
)
from dagster_sparkscale.autoscale import rescale
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.driver.wire import (
    Executor,
    Limit,
    Query,
    QueryState,
    Receiver,
    Reconfiguration,
    Relaunch,
)
from dagster_sparkscale.lifecycle import reconcile
from dagster_sparkscale.operations import Streams
from tests.in_memory.driver import Kept
from tests.watch.deployment import Deployment

HOURS = 2
MINUTES = HOURS * 60
STEP = 2
"""Minutes between two ticks: half as many will do."""


def _stream(name: str, **fields):
    plain = {
        "program": f"jobs/{name}.py",
        "batch_interval": "10s",
        "checkpoint_location": f"/data/checkpoints/{name}",
        "autoscale": RatioPolicy(max_executors=8, max_lag="1 min"),
        "group": "streams",
    }
    return StructuredStream(name=name, **plain | fields)


LEGACY = _stream("legacy")
SOCKETS = DStream(
    name="sockets",
    program="jobs/sockets.py",
    batch_interval="10s",
    receivers=3,
    executor_cores=2,
    backpressure=BackpressurePolicy(),
    autoscale=RatioPolicy(max_executors=8),
    group="streams",
)
STREAMS = [
    _stream("baskets"),
    _stream("clicks", description="Clicks, rated one by one."),
    _stream("orders", recovery=RecoveryPolicy(limit=20, first_delay="10s", longest_delay="1 min")),
    _stream("payments", recovery=RecoveryPolicy(limit=3, first_delay="30s")),
    _stream("returns"),
    _stream("searches"),
    _stream("sessions"),
    SOCKETS,
    _stream("tickets", autoscale=RatioPolicy(max_executors=2, max_lag="1 min")),
    _stream("uploads"),
    _stream("visits"),
    _stream("wishes"),
]
BEFORE = [_stream("returns", executor_memory="2g") if s.name == "returns" else s for s in STREAMS]
LOG = (
    "/var/lib/streams/production/eu_central_1/cluster_blue/state/streams/tickets_of_all_shops/"
    + ("submissions/12/driver.log")
)
"""Of a length that would widen a page."""
OOM = "exit code 52: java.lang.OutOfMemoryError: Java heap space"


def play(home: Path) -> dg.DagsterInstance:
    """Store two hours in an instance at `home`."""
    now = [time.time() - HOURS * 3600]
    with (
        patch("time.time", lambda: now[0]),
        patch.object(rescale, "_POLL", 0),
        patch.object(reconcile, "_POLL", 0),
        patch.object(reconcile, "START_WAIT", 0),
        patch.object(Streams, "owner", lambda *_: "tests.ui.location/spark_cluster"),
    ):
        instance = dg.DagsterInstance.local_temp(str(home))
        _Hours(instance, now).play()
    return instance


class _Hours:
    def __init__(self, instance, now) -> None:
        self._now = now
        self._random = random.Random(1)
        self._deployed = Deployment([*BEFORE, LEGACY], instance=instance)
        self._world = self._deployed.world
        self._world.on_look = self._look
        self._minute = 0

    def play(self) -> None:
        self._start("clicks", "orders", "payments", "returns", "searches", "sessions")
        self._start("tickets", "uploads", "legacy", "baskets", "sockets")
        kept = self._world.streams["tickets"]
        kept.driver = replace(kept.driver, where=f"process 77 on worker-1, log {LOG}")
        for self._minute in range(0, MINUTES, STEP):
            self._happen()
            self._tick()
            self._now[0] += 60 * STEP

    def _happen(self) -> None:
        """What happens apart from the load."""
        minute, streams = self._minute, self._world.streams
        if minute == 40:
            self._deployed.by_hand("stop", stream="sessions")
        if minute == 50:
            self._world.end("payments", exit_reason=OOM)
            self._world.on_submit = self._crash
        if minute == MINUTES - 60:
            again = Deployment(STREAMS, self._world, self._deployed.instance)
            again.cursor = self._deployed.cursor
            self._deployed = again
        if minute == MINUTES - 20:
            self._world.end("orders", exit_reason=OOM)
        if minute == MINUTES - 16:
            streams["searches"].reachable = False
        if minute == MINUTES - 2:
            self._start("visits")

    def _crash(self, kept: Kept) -> None:
        if kept.driver.stream == "visits":
            kept.driver = replace(kept.driver, state=DriverState.STARTING)
            kept.phase, kept.batch_seconds, kept.queries = "starting", None, ()

    def _look(self, kept: Kept) -> None:
        if kept.phase == "starting":
            return
        name = kept.driver.stream
        if name == "uploads":
            # It runs, and nobody sends anything.
            kept.queries = (Query("counts", active=True, interval_ms=10_000, behind_ms=0),)
            return
        # The load of one goes up and down; the others' runs would take their time.
        wave = math.sin(2 * math.pi * self._minute / 120) if name == "clicks" else 0.0
        busy = 1.2 + max(0.0, wave) * 3.5
        executors = max(1, kept.registered)
        kept.executors = tuple(
            Executor(str(number), f"worker-{number % 3}.example.com", 1, active_tasks=1)
            for number in range(kept.registered)
        )
        if name == "tickets":
            busy = 2.6
        kept.batch_seconds = 10 * busy * self._random.uniform(0.9, 1.1) / executors
        kept.records = round(9000 * busy)
        behind = round(1000 * kept.batch_seconds * self._random.uniform(1, 1.4))
        if name == "tickets":
            behind += 4000 * self._minute
        kept.queries = (
            Query(
                "counts",
                active=True,
                interval_ms=10_000,
                backlog_records=self._random.randint(0, 9000),
                behind_ms=behind,
                source_shards=8,
                trigger="processing time",
                heard_at=self._now[0],
            ),
        )
        if name == "baskets":
            self._keep_state(kept)
        elif name == "sockets":
            self._receive(kept)

    def _keep_state(self, kept: Kept) -> None:
        """A query with state whose partitions were changed, and partitions of Kafka."""
        change = Reconfiguration(
            *("plan", "counts", "over", self._now[0] - 3600, "changed"),
            before=16,
            after=32,
            key_groups=128,
            rows=12_345_678,
            seconds={"checking": 1.0, "rewriting": 95.0},
            group_rows=tuple(range(80_000, 80_128)),
            partition_rows_after=tuple(range(380_000, 380_032)),
        )
        names = ("stateStoreSave",)
        state = QueryState(12_345_678, 9_876_543_210, 32, names, key_groups=128, last=change)
        topic = "production.eu-central-1.shop-checkout.baskets_with_all_items"
        behind = {f"{topic}-{number}": 1_234_567 - number for number in range(20)}
        [query] = kept.queries
        kept.queries = (replace(query, state=state, partitions_behind=behind),)

    def _receive(self, kept: Kept) -> None:
        """Receivers with limits, of which one was away, on hosts with long names."""
        began, count = kept.driver.submitted_at, max(1, kept.registered)
        host = "ip-10-0-12-{}.eu-central-1.compute.internal"
        kept.receivers = tuple(
            Receiver(
                *(number, "KinesisReceiver", str(number % count)),
                host.format(number % count),
                began,
                rate=1234.5,
                error="Connection to 10.0.0.7:9999 refused" if number == 1 else None,
            )
            for number in range(3)
        )
        moved = Relaunch(1, "executor lost", "7", began, "0", wanted="0", away_seconds=12.3)
        kept.relaunches = (moved, replace(moved, stream_id=2, to_executor=None, away_seconds=None))
        kept.limits = tuple(
            Limit(
                *(f"receiver-{number}", "counts", 4218.0, "set" if number else "estimator"),
                taken=not number,
                estimator="work",
                estimate=5318.0,
                reason="1,000 records take 0.05 s on 3 cores; 90% of 10 s: 4,218 records/s",
                records=12_345,
            )
            for number in range(3)
        )

    def _tick(self) -> None:
        # Those that crash do so again within a minute or three.
        minute = self._minute
        for name, begin in (("payments", 50), ("orders", MINUTES - 20)):
            kept = self._world.streams[name]
            if minute > begin and kept.driver.state.alive and minute % 4:
                self._world.end(name, exit_reason=OOM)
        tick = self._deployed.tick()
        instance = self._deployed.instance
        for event in tick.data.asset_events:
            instance.report_runless_asset_event(event)
        for request in tick.requests:
            job = self._deployed.defs.resolve_job_def(request.job_name)
            job.execute_in_process(
                run_config=request.run_config,
                tags={**request.tags, "dagster/run_key": request.run_key},
                instance=instance,
                raise_on_error=False,
            )

    def _start(self, *names: str) -> None:
        # In one run: to Dagster, it is the runs that take long.
        defs = self._deployed.defs
        job = defs.resolve_implicit_global_asset_job_def()
        job.execute_in_process(
            instance=self._deployed.instance,
            asset_selection=[dg.AssetKey(name) for name in names],
            raise_on_error=False,
        )
