"""A mover of receivers, and a tracker of them that does as Spark's does."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dagster_sparkscale.driver.receivers.move_request import CannotMove
from dagster_sparkscale.driver.receivers.mover import Mover
from dagster_sparkscale.driver.receivers.tracker import NO_RECEIVERS, ReceiverContext, Receivers
from dagster_sparkscale.driver.receivers.watch import TrackedReceiver
from dagster_sparkscale.driver.request import NotReady
from dagster_sparkscale.driver.spark.private import PrivateSpark
from dagster_sparkscale.driver.wire import Executor


class Tracker:
    """Of Spark: a receiver that was sent somewhere is away until `come_up` is called."""

    def __init__(self, placed: Sequence[str | None], executors: int) -> None:
        self.placements = {
            stream: TrackedReceiver(
                stream, executor, executor and "host", executor is not None, f"{stream}-0", "R"
            )
            for stream, executor in enumerate(placed)
        }
        self.hosts = {str(number): f"host-{number}" for number in range(executors)}
        self.sent: list[tuple[int, str, str]] = []
        self.streaming, self.tells, self.can = True, True, True
        self.until: float | None = 0.0
        self.fails: Exception | None = None
        self.fails_half_way: Exception | None = None
        self._launches = 0

    def look(self) -> Receivers | None:
        if self.fails is not None:
            raise self.fails
        if not self.streaming:
            return NO_RECEIVERS
        placed = {stream: each.executor for stream, each in self.placements.items()}
        counts = Counter(executor for executor in placed.values() if executor is not None)
        told = tuple(self.placements.values()) if self.tells else None
        hosts = self.hosts if self.tells else {}
        return Receivers(counts, total=len(placed), placed=placed, placements=told, hosts=hosts)

    def send(self, stream: int, host: str, executor: str) -> bool:
        assert host == self.hosts[executor]
        self.sent.append((stream, host, executor))
        self.placements[stream] = replace(self.placements[stream], active=False)
        if self.fails_half_way is not None:
            raise self.fails_half_way
        return self.can

    def come_up(self, stream: int, executor: str) -> None:
        self._launches += 1
        self.placements[stream] = TrackedReceiver(
            stream, executor, "host", True, f"{stream}-{self._launches}", "R"
        )

    def processed_until(self) -> float | None:
        return self.until


class Spark:
    """A mover, the tracker it asks, and a clock that a test moves on."""

    def __init__(self, *placed: str | None, executors: int = 3, cores: int = 2) -> None:
        self.tracker = Tracker(placed, executors)
        self.executors = [Executor(str(number), "host", cores) for number in range(executors)]
        self.now = 1000.0
        self.mover = Mover(PrivateSpark(), lambda: self.executors, lambda: self.now)
        self.be()

    def fail(self, stream: int, pause: float) -> None:
        """A receiver restarts itself after a pause."""
        failed = replace(
            self.tracker.placements[stream],
            active=False,
            error="Restarting receiver",
            pauses_until=self.now + pause,
        )
        self.tracker.placements[stream] = failed

    def be(self, **more: Any) -> None:
        tracker: Any = self.tracker
        made = {"local": False, "logged": False, "task_cpus": 1, "scala": "2.13.18", **more}
        bound = ReceiverContext(tracker, **made)
        self.mover._per_context = SimpleNamespace(get=lambda: bound)  # type: ignore[assignment]

    def look(self, after: float = 0.0) -> Receivers:
        self.now += after
        seen = self.mover.look()
        assert seen is not None
        return seen

    def move(self, stream: int, executor: str, operation: int | None = None) -> Receivers:
        request = self.mover.request(stream, executor, operation)
        seen = self.look()
        request.result()
        return seen

    def refused(self, stream: int, executor: str) -> str:
        before = list(self.tracker.sent)
        with pytest.raises((CannotMove, NotReady)) as caught:
            self.move(stream, executor)
        assert self.tracker.sent == before
        return f"{type(caught.value).__name__}: {caught.value}"
