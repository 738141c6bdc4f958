"""What a capability brings: one row of answers to the questions that the minute loop asks.

A capability, such as the receivers of a stream, brings operations, decisions, faults, and what
Dagster's page of a stream shows. The loop, the page and the terminal ask all rows the same
questions, each about a `Situation`, and name none of them; `capabilities.py` does.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from dagster_sparkscale.clusters.base import Driver
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Decision, Hold, ScaleTo
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.in_force.limits import bounds_in_force
from dagster_sparkscale.in_force.steering import Steering, in_force
from dagster_sparkscale.observe.evaluation import Evaluation
from dagster_sparkscale.observe.findings import Finding, Health
from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.observe.status import Status
from dagster_sparkscale.once import once
from dagster_sparkscale.operations import Operation, Operations, Streams


@dataclass(frozen=True)
class Situation:
    """A stream as one look has found it. What the look did not bring is None."""

    stream: Stream
    now: float
    """Seconds since the epoch, by the clock of the cluster's records."""
    driver: Driver | None = None
    status: Status | None = None
    evaluation: Evaluation | None = None
    learned: Mapping[str, float] = field(default_factory=dict)
    """What capabilities have learned of the stream, each under keys of its own."""

    @once
    def steering(self) -> Steering:
        """How far the stream may be changed by itself now."""
        record = self.driver.record if self.driver is not None else None
        return in_force(record, self.stream, self.now)

    @once
    def bounds(self) -> Bounds:
        """Between which numbers of executors the stream can move now."""
        shards = None if self.evaluation is None else self.evaluation.shards
        return bounds_in_force(self.stream, self.driver, self.steering, shards)


@dataclass(frozen=True)
class Running(Situation):
    """A stream whose driver answers, and whose batches are evaluated: decisions are made on it."""

    driver: Driver
    status: Status
    evaluation: Evaluation


def _none(*_: Any) -> None:
    return None


def _empty(*_: Any) -> Any:
    return {}


def _as_before(situation: Running, decision: Any) -> Any:
    return decision


@dataclass(frozen=True)
class Capability:
    """What one capability answers; what it leaves out, it has nothing to say to."""

    name: str
    operations: tuple[Operation[Any, Any], ...] = ()
    """What can be done to a stream by it."""
    schedules: Callable[[Streams, Operations], Sequence[dg.ScheduleDefinition]] = _empty
    busy: Callable[[Status], str | None] = _none
    """What the driver is in the middle of, in words: until it is over, all decisions are to hold,
    and no batch is missed."""
    adjust: Callable[[Running, Hold | ScaleTo], Hold | ScaleTo] = _as_before
    """The policy's decision on executors, as it fits what the capability knows."""
    decide: Callable[[Running, Hold], Decision] = _as_before
    """What should happen where the executors are left as they are; or why nothing should."""
    faults: Callable[[Situation], Iterator[tuple[Health, Finding]]] = _empty
    """What is wrong, each under the health check that it fails."""
    learn: Callable[[Running, Decision], Mapping[str, float]] = _empty
    """What is known of the stream from now on, under the capability's own keys of the cursor. What
    is left out is forgotten."""
    ended: Callable[[Situation], Mapping[str, float]] = _empty
    """What is known of a stream whose driver does not answer, or has ended, under the capability's
    own keys of the cursor: they stand in the place of what was known under these."""
    sections: Callable[[Situation], Mapping[str, str]] = _empty
    """Markdown for Overview, by title; empty text is not shown."""
    numbers: Callable[[Situation, Minute], Mapping[str, float | None]] = _empty
    """What Dagster plots, by labels that begin with their place among all numbers."""
    news: Callable[[Status], Mapping[str, str]] = _empty
    """What has happened last, in words, under the capability's own keys of the cursor. Another text
    under a key is told at once."""


class Capabilities:
    """All rows, in order: the loop asks here, and each question goes to every row that it needs."""

    def __init__(self, *rows: Capability) -> None:
        self.rows = rows

    @property
    def operations(self) -> tuple[Operation[Any, Any], ...]:
        return tuple(operation for row in self.rows for operation in row.operations)

    def schedules(
        self, streams: Streams, operations: Operations
    ) -> Iterator[dg.ScheduleDefinition]:
        for row in self.rows:
            yield from row.schedules(streams, operations)

    def busy(self, status: Status | None) -> str | None:
        """What the driver is in the middle of; None: nothing, or there is no answer to tell it."""
        if status is None:
            return None
        return next((text for row in self.rows if (text := row.busy(status)) is not None), None)

    def adjust(self, situation: Running, decision: Hold | ScaleTo) -> Hold | ScaleTo:
        for row in self.rows:
            decision = row.adjust(situation, decision)
        return decision

    def decide(self, situation: Running, held: Hold) -> Decision:
        """The first decision other than to hold; or `held`, with what each has to add."""
        decision: Decision = held
        for row in self.rows:
            if not isinstance(decision, Hold):
                break
            decision = row.decide(situation, decision)
        return decision

    def faults(self, situation: Situation) -> dict[Health, Finding]:
        """The first fault under each health check."""
        found: dict[Health, Finding] = {}
        for row in self.rows:
            for health, finding in row.faults(situation):
                found.setdefault(health, finding)
        return found

    def learn(self, situation: Situation, decision: Decision) -> Mapping[str, float]:
        """What is known of the stream from now on.

        Args:
            decision: what should happen to it, which need not come to be.
        """
        if not isinstance(situation, Running):
            every = (row.ended(situation) for row in self.rows)
            return {**situation.learned, **{k: n for each in every for k, n in each.items()}}
        return {
            key: value for row in self.rows for key, value in row.learn(situation, decision).items()
        }

    def sections(self, situation: Situation) -> dict[str, str]:
        return {name: text for row in self.rows for name, text in row.sections(situation).items()}

    def numbers(self, situation: Situation, minute: Minute) -> dict[str, float | None]:
        each = (row.numbers(situation, minute) for row in self.rows)
        return {label: value for numbers in each for label, value in numbers.items()}

    def news(self, status: Status | None) -> dict[str, str]:
        """What has happened last, without what is empty."""
        if status is None:
            return {}
        every = (row.news(status) for row in self.rows)
        return {key: text for news in every for key, text in news.items() if text}
