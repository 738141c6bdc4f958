"""Minutes of a stream whose policy has a least gain, as its autoscaler goes through them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dagster_sparkscale.autoscale.effect import adjust, learn
from dagster_sparkscale.capability import Running
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.observe.evaluate import evaluate
from dagster_sparkscale.observe.status import Batch, Status
from tests.fakes import batch, driver, scaled, status

STREAM = scaled(max_executors=8, min_gain=0.1)
AGO = (53, 37, 21, 5)
HOLD = Hold("R is high, but 6 executors are the maximum", pinned=True)
UP = ScaleTo(6, "4 registered -> 6")


@dataclass
class Minutes:
    """What the sensor remembers from one minute to the next, and the minutes."""

    learned: Mapping[str, float] = field(default_factory=dict)
    stream: Stream = STREAM
    now: float = 10_000.0
    epoch: int = 1

    def pass_(
        self,
        on: int,
        seconds: float = 16,
        records: int = 1000,
        policy: Hold | ScaleTo = HOLD,
        minutes: float = 1,
        **fields: Any,
    ) -> Hold | ScaleTo:
        """A minute in which batches on so many executors took so long; returns what is decided."""
        self.now += 60 * minutes
        of = {"requested": on, "batches": self.batches(on, seconds, records)}
        seen = status(registered=on, now=self.now, started_at=0.0, **of | fields)
        running = self.running(seen)
        learned = learn(running, adjust(running, policy))
        if learned == self.learned:
            return adjust(running, policy)
        self.learned = learned
        return adjust(self.running(seen), policy)

    def batches(self, executors: int, seconds: float, records: int) -> tuple[Batch, ...]:
        of = {"now": self.now, "executors": executors, "records": records}
        return tuple(batch(seconds, ago=ago, **of) for ago in AGO)

    def running(self, seen: Status) -> Running:
        evaluation = evaluate(seen, window=60, batch_interval=10)
        at = driver(epoch=self.epoch, state=DriverState.RUNNING)
        return Running(self.stream, self.now, at, seen, evaluation, self.learned)

    def scaled_up(self) -> "Minutes":
        """From 4 executors to 6, which were there for the first time in the last minute."""
        assert self.pass_(4, policy=UP) == UP
        assert "a whole window" in self.pass_(6).reason
        return self
