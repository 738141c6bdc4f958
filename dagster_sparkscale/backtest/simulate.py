"""A policy on a simulated stream: what it sees, decides and comes to.

What it sees is made by the same code as in the sensor, of the status that an agent would report:
`observe.evaluate`, `observe.minutes` and `declare.learner`. Pure.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, cast

from dagster_sparkscale.backtest.loads import Load
from dagster_sparkscale.backtest.machine import Done, Machine
from dagster_sparkscale.backtest.model import Application
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.declare.learner import Learner
from dagster_sparkscale.declare.policies import AutoscalePolicy, learned_of
from dagster_sparkscale.observe.evaluate import evaluate
from dagster_sparkscale.observe.evaluation import Evaluation
from dagster_sparkscale.observe.minutes import Minute, minute

_DUE = 0.9
"""Share of a policy's interval after which it decides again, where it is looked at more often."""


class Decider(Protocol):
    """What decides: a policy, or anything else that has this."""

    def decide(self, bounds: Bounds, evaluation: Evaluation, /) -> Hold | ScaleTo:
        """What is to happen to the stream."""


@dataclass(frozen=True, slots=True)
class Decided:
    """One decision, and what was requested before it."""

    at: float
    """Seconds from the beginning."""
    requested: int
    decision: Hold | ScaleTo

    @property
    def target(self) -> int:
        """Executors requested from then on."""
        return self.decision.target if isinstance(self.decision, ScaleTo) else self.requested


@dataclass(frozen=True, slots=True)
class Run:
    """A load from its beginning to its end, and what was made of it."""

    application: Application
    load: Load
    minutes: tuple[Minute, ...]
    """One a decision, as the sensor would have stored them."""
    batches: tuple[Done, ...]
    """The batches that were done, in order."""
    executor_seconds: float
    """Executors that were registered, times the seconds for which they were."""
    changes: tuple[tuple[float, int], ...]
    """Since when so many executors were registered, in seconds from the beginning."""
    decisions: tuple[Decided, ...]
    seconds: float
    """How long it lasted."""
    undone_since: float
    """When the oldest record came that was in no finished batch at the end."""

    @property
    def rescales(self) -> int:
        """How often another number of executors was asked for."""
        return sum(each.target != each.requested for each in self.decisions)


def simulate(
    application: Application,
    load: Load,
    decider: AutoscalePolicy | Decider,
    bounds: Bounds,
    *,
    interval: float | None = None,
    ticks: Sequence[float] | None = None,
    seed: int = 0,
    initial: int | None = None,
    began_at: float = 0.0,
) -> Run:
    """Run an application under a load, from its beginning to its end.

    Args:
        decider: a policy; or what has `decide(bounds, evaluation)`, and is a learner where it has
            `after(minute)`, too.
        bounds: as of the stream; where the application has shards they bound what is useful.
        interval: seconds between two decisions, and the window of each; None: the policy's, and of
            others 60.
        ticks: when it is looked at, in seconds from the beginning; None: each `interval`.
        seed: decides noise and failures.
        initial: executors at the beginning; None: `bounds.initial`.
        began_at: the beginning, seconds since the epoch.

    Raises:
        ValueError: the decider asks for a number outside of the bounds.
    """
    interval = _interval(decider, interval, load)
    bounds = _for_shards(bounds, application)
    learner = _learner(decider, application)
    by: Decider = decider
    machine = Machine(application, load, bounds.initial if initial is None else initial, seed)
    if ticks is None:
        ticks = [number * interval for number in range(1, int(load.seconds / interval + 1e-9) + 1)]
    minutes, decisions = [], []
    last, decided = 0.0, -math.inf
    for at in ticks:
        machine.advance(at)
        seen = look(machine, application.interval, max(interval, at - last))
        last = at
        row = minute(began_at + at, "running", 1, seen)
        if learner is not None:
            by = learner = learner.after(row)
        if at - decided < _DUE * interval:
            minutes.append(row)
            continue
        decided = at
        decision, requested = by.decide(bounds, seen), machine.requested
        decisions.append(Decided(machine.now, requested, decision))
        if isinstance(decision, ScaleTo):
            _refuse_outside(decision, bounds)
            machine.request(decision.target)
            row = replace(row, decision=str(decision), reason=decision.reason)
        minutes.append(row)
    machine.advance(max(load.seconds, machine.now))
    return run_of(machine, application, load, minutes, decisions)


def _interval(decider: AutoscalePolicy | Decider, interval: float | None, load: Load) -> float:
    """Seconds between two decisions."""
    if interval is None:
        interval = decider.interval if isinstance(decider, AutoscalePolicy) else 60.0
    if not 0 < interval <= load.seconds:
        raise ValueError(
            f"interval = {interval!r}: must be above 0, and within the {load.seconds:g} s of the "
            f"load {load.name!r}"
        )
    return interval


def _for_shards(bounds: Bounds, application: Application) -> Bounds:
    workload = application.workload
    return bounds.for_shards(
        application.shards,
        tasks_per_shard=workload.tasks_per_shard,
        executor_cores=workload.slots,
        cores_per_task=1,
        receivers=workload.pinned,
    )


def look(machine: Machine, batch_interval: float, window: float) -> Evaluation:
    """What is seen of a machine now, looking back `window` seconds."""
    return evaluate(machine.status(window), window=window, batch_interval=batch_interval)


def run_of(
    machine: Machine,
    application: Application,
    load: Load,
    minutes: Sequence[Minute],
    decisions: Sequence[Decided] = (),
) -> Run:
    """What a machine has come to that has run to the end of its load."""
    return Run(
        *(application, load, tuple(minutes), tuple(machine.done), machine.executor_seconds),
        *(tuple(machine.changes), tuple(decisions), machine.now, machine.undone_since),
    )


def _learner(decider: AutoscalePolicy | Decider, application: Application) -> Learner | None:
    """What learns in place of a policy, from no more minutes than in the sensor; or the decider
    itself, where it learns."""
    if isinstance(decider, AutoscalePolicy):
        return learned_of(decider, application.workload)
    return cast(Learner, decider) if hasattr(decider, "after") else None


def _refuse_outside(decision: ScaleTo, bounds: Bounds) -> None:
    if bounds.clamp(decision.target) != decision.target:
        raise ValueError(
            f"target = {decision.target}: must be within the bounds, from {bounds.minimum} to "
            f"{bounds.maximum}; it was asked for as {decision.reason!r}"
        )
