"""A policy on a real stream of a real cluster, under a load that is replayed, and what came of it.

The stream is `programs/replayed.py` on an embedded cluster: real executors come and go, the agent
is asked as the sensor asks it, and what the batches mean is evaluated by the same code. Only the
clock is a fast one: what is a minute by it takes 8 seconds, as do the start of an executor and a
batch. Policies see a minute, and all that is measured is by that clock.
"""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median

from dagster_sparkscale import LocalCluster, RatioPolicy, StructuredStream
from dagster_sparkscale.backtest.loads import Load
from dagster_sparkscale.backtest.machine import Done
from dagster_sparkscale.backtest.model import Application
from dagster_sparkscale.backtest.simulate import Decided, Decider, Run
from dagster_sparkscale.clusters.agents.change import SetExecutors
from dagster_sparkscale.clusters.base import Driver
from dagster_sparkscale.clusters.errors import AgentUnreachable
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import ScaleTo
from dagster_sparkscale.declare.learner import Learner, Workload
from dagster_sparkscale.declare.policies import AutoscalePolicy, learned_of
from dagster_sparkscale.observe.evaluate import evaluate
from dagster_sparkscale.observe.minutes import Minute, minute
from dagster_sparkscale.observe.status import Batch, Status
from dev.runs import MARK

PROGRAM = Path(__file__).parent.parent / "programs" / "replayed.py"
FASTER = 7.5
"""Seconds of the fast clock in one real second."""
BATCH_INTERVAL = 15.0
INTERVAL = 60.0
"""Between two decisions."""
MOST = 5
"""Executors."""
SLOTS = 2
"""Tasks that each of them runs at a time."""
PARTITIONS = 10
COST_MS = 10
"""Real milliseconds for a record."""
WARM = 10
"""Batches before the load begins: the first ones load and compile code."""
_POLL = 1.0
_DEADLINE = 180.0
"""Both in real seconds."""
_LESS_COMPILING = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""The machine has fewer cores than the executors say: a JVM's compiler takes them from batches."""

# Spark's own choice starts 24 processes for each batch of a checkpoint in a local folder.
_CHECKPOINTS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)


@contextmanager
def cluster(folder: Path) -> Iterator[LocalCluster]:
    """An embedded cluster with room for `MOST` executors; ended with all that runs on it."""
    made = LocalCluster(
        state_dir=str(folder / "cluster"),
        workers=1,
        cores_per_worker=MOST * SLOTS,
        memory_per_worker="8g",
        pass_environment=[MARK],
    )
    try:
        yield made
    finally:
        made.shutdown(force=True)


def run(cluster: LocalCluster, name: str, policy: Decider, load: Load, folder: Path) -> Run:
    """Have a new stream under that load, scaled by a policy, from one executor on.

    Raises:
        TimeoutError: it did not start in time.
    """
    stream = _stream(name, load, folder)
    with cluster.lease(name, "benchmark") as lease:
        driver = cluster.submit(stream, lease)
    try:
        driver = _warm(cluster, driver)
        live = _Live(cluster, driver, policy, time.time())
        # Whole at once: the source reads it at any time.
        (folder / f"{name}.new").write_text(repr(live.began))
        (folder / f"{name}.new").replace(folder / f"{name}.began")
        live.until(load.seconds)
        return live.run(load)
    finally:
        with cluster.lease(name, "benchmark", wait=60.0) as lease:
            cluster.stop(driver, lease, graceful=False, timeout=15.0)


def _stream(name: str, load: Load, folder: Path) -> StructuredStream:
    file = folder / f"{name}.load"
    arrived = [load.arrived(step * load.step) for step in range(len(load.rates) + 1)]
    file.write_text(json.dumps({"step": load.step / FASTER, "arrived": arrived}))
    return StructuredStream(
        name=name,
        program=str(PROGRAM),
        arguments=(str(file), str(folder / f"{name}.began"), str(PARTITIONS), str(COST_MS)),
        batch_interval=BATCH_INTERVAL / FASTER,
        checkpoint_location=str(folder / f"{name}.checkpoint"),
        executor_cores=SLOTS,
        executor_memory="512m",
        spark_conf={
            "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINTS,
            "spark.driver.extraJavaOptions": _LESS_COMPILING,
            "spark.executor.extraJavaOptions": _LESS_COMPILING,
        },
        # Says how many there may be; it is scaled from here.
        autoscale=RatioPolicy(max_executors=MOST),
    )


def _warm(cluster: LocalCluster, driver: Driver) -> Driver:
    """The driver once it has done its first batches.

    Raises:
        TimeoutError: it does not do them.
    """
    deadline = time.monotonic() + _DEADLINE
    while time.monotonic() < deadline:
        time.sleep(_POLL)
        found = cluster.find(driver.stream)
        if found is None or found.agent_url is None:
            continue
        status = cluster.status(found)
        busy = [b for b in status.batches if b.records]
        if len(busy) >= WARM and status.registered == 1:
            return found
    raise TimeoutError(f"{driver.stream} was not warm in time: {cluster.logs(driver, 30)}")


def by_fast_clock(status: Status, began: float) -> Status:
    """What an agent reports, by a clock that has been `FASTER` since a moment."""

    def at(moment: float) -> float:
        return began + (moment - began) * FASTER

    def lasted(ms: int | None) -> int | None:
        return None if ms is None else round(ms * FASTER)

    return replace(
        status,
        now=at(status.now),
        started_at=at(status.started_at),
        dropped_at=None if status.dropped_at is None else at(status.dropped_at),
        batches=tuple(
            replace(
                batch,
                completed_at=at(batch.completed_at),
                processing_ms=round(batch.processing_ms * FASTER),
                scheduling_ms=lasted(batch.scheduling_ms),
                planning_ms=lasted(batch.planning_ms),
            )
            for batch in status.batches
        ),
        queries=tuple(
            replace(
                query,
                interval_ms=lasted(query.interval_ms),
                running_ms=lasted(query.running_ms),
                heard_at=None if query.heard_at is None else at(query.heard_at),
            )
            for query in status.queries
        ),
    )


class _Live:
    """A stream that runs, what was seen of it since the load began, and what was decided."""

    def __init__(
        self, cluster: LocalCluster, driver: Driver, policy: Decider, began: float
    ) -> None:
        self._cluster, self._driver = cluster, driver
        self._policy = policy
        self._learner: Learner | None = None
        if isinstance(policy, AutoscalePolicy):
            self._learner = learned_of(policy, declared().workload)
        self.began = began
        """Seconds since the epoch."""
        self._batches: dict[int, Batch] = {}
        self._minutes: list[Minute] = []
        self._decisions: list[Decided] = []
        self._changes: list[tuple[float, int]] = []

    @property
    def _elapsed(self) -> float:
        return (time.time() - self.began) * FASTER

    def until(self, end: float) -> None:
        """Follow it and scale it, up to `end` seconds from the beginning."""
        tick = 1
        while (now := self._elapsed) < end:
            due = now >= tick * INTERVAL
            try:
                status = self._cluster.status(self._driver, window=3 * INTERVAL / FASTER)
            except AgentUnreachable:
                continue
            status = by_fast_clock(status, self.began)
            self._note(status)
            if due:
                self._decide(status)
                tick += 1
            left = (min(tick * INTERVAL, end) - self._elapsed) / FASTER
            time.sleep(max(0.0, min(_POLL, left)))

    def _note(self, status: Status) -> None:
        for batch in status.batches:
            if batch.batch_id is not None:
                self._batches[batch.batch_id] = batch
        registered = status.registered
        if registered is not None and (not self._changes or registered != self._changes[-1][1]):
            self._changes.append((self._elapsed if self._changes else 0.0, registered))

    def _decide(self, status: Status) -> None:
        seen = evaluate(status, window=INTERVAL, batch_interval=BATCH_INTERVAL)
        row = minute(status.now, "running", status.epoch, seen)
        by = self._policy
        if self._learner is not None:
            by = self._learner = self._learner.after(row)
        decision = by.decide(BOUNDS, seen)
        if isinstance(decision, ScaleTo):
            row = replace(row, decision=str(decision), reason=decision.reason)
            with self._cluster.lease(self._driver.stream, "benchmark") as lease:
                self._cluster.change(self._driver, SetExecutors(decision.target), lease=lease)
        self._minutes.append(row)
        if seen.requested is not None:
            self._decisions.append(Decided(self._elapsed, seen.requested, decision))

    def run(self, load: Load) -> Run:
        """What came of it, as the simulator tells it."""
        done = tuple(self._done())
        ends = [*(at for at, _ in self._changes[1:]), load.seconds]
        held = sum(count * (end - at) for (at, count), end in zip(self._changes, ends, strict=True))
        return Run(
            *(declared(), load, tuple(self._minutes), done, held),
            *(tuple(self._changes), tuple(self._decisions), load.seconds),
            undone_since=max((each.began for each in done), default=0.0),
        )

    def _done(self) -> Iterator[Done]:
        before: float | None = None
        for _, batch in sorted(self._batches.items()):
            took = batch.processing_ms / 1000
            began = batch.completed_at - took - self.began
            if before is not None and began >= 0 and batch.records is not None:
                gathered = began - before
                delay = gathered + took if batch.records else 0.0
                yield Done(began, batch.records, gathered, took, delay, batch.executors or 0)
            before = began


def start_delay(runs: Sequence[Run]) -> float | None:
    """Seconds from a decision for more executors until they have registered, in the median; None:
    there was none."""
    found = [
        min(times) - decided.at
        for run in runs
        for decided in run.decisions
        if decided.target > decided.requested
        and (times := [at for at, n in run.changes if at > decided.at and n >= decided.target])
    ]
    return median(found) if found else None


BOUNDS = Bounds(minimum=1, maximum=MOST, initial=1)


def declared() -> Application:
    """The stream as its program says; what Spark adds to it is not known before it has run."""
    return Application(
        Workload(BATCH_INTERVAL, SLOTS),
        overhead=0.0,
        work=COST_MS / 1000 * FASTER,
        partitions=PARTITIONS,
        queues=False,
    )
