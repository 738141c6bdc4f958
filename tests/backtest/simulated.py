"""Applications, loads and deciders, of which a test says only what it is about."""

import math
import random
from collections.abc import Callable
from typing import Any

from dagster_sparkscale.backtest.loads import Load, constant
from dagster_sparkscale.backtest.model import Application
from dagster_sparkscale.backtest.simulate import Run, simulate
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.declare.learner import Workload
from dagster_sparkscale.observe.evaluation import Evaluation

BOUNDS = Bounds(minimum=1, maximum=40, initial=4)


def application(**fields: Any) -> Application:
    """Batches of 10 s and 64 tasks, on executors of 2 cores; without noise, 0.8 s of overhead, and
    on 4 executors 4.8 s for 1000 records per second (3.2 ms of a slot for each record)."""
    named = ("batch_interval", "slots", "tasks_per_shard", "pinned")
    of = {name: fields.pop(name) for name in named if name in fields}
    workload = Workload(**{"batch_interval": 10.0, "slots": 2} | of)
    plain: dict[str, Any] = {"overhead": 0.8, "work": 0.0032, "partitions": 64}
    return Application(workload, **plain | fields)


class Always:
    """Hold whatever happens."""

    def decide(self, bounds: Bounds, evaluation: Evaluation, /) -> Hold | ScaleTo:
        return Hold("always")


class At:
    """Ask for numbers of executors at ticks, 1 being the first; and note what was seen."""

    def __init__(self, targets: dict[int, int]) -> None:
        self.targets = targets
        self.seen: list[Evaluation] = []

    def decide(self, bounds: Bounds, evaluation: Evaluation, /) -> Hold | ScaleTo:
        self.seen.append(evaluation)
        target = self.targets.get(len(self.seen))
        return Hold("nothing") if target is None else ScaleTo(target, "as planned")


class By:
    """Decide by a function of the evaluation, which returns the target."""

    def __init__(self, target: Callable[[Evaluation], int]) -> None:
        self.target = target

    def decide(self, bounds: Bounds, evaluation: Evaluation, /) -> Hold | ScaleTo:
        target = bounds.clamp(self.target(evaluation))
        if target == evaluation.requested:
            return Hold("there already")
        return ScaleTo(target, "by a function")


def held(
    load: Load | float = 1000.0, executors: int = 4, seconds: float = 600.0, **fields: Any
) -> Run:
    """A run on so many executors from its beginning to its end."""
    if not isinstance(load, Load):
        load = constant(load, seconds)
    return simulate(application(**fields), load, Always(), BOUNDS, initial=executors)


def daily(mean: float, swing: float, seconds: float = 36_000.0, uneven: float = 0.05) -> Load:
    """A load that rises and falls, twice in its time, and differs a little from minute to
    minute."""
    draws, steps = random.Random(7), round(seconds / 60)
    waves = (math.sin(4 * math.pi * step / steps) for step in range(steps))
    rates = (mean * (1 + swing * wave) * draws.uniform(1 - uneven, 1 + uneven) for wave in waves)
    return Load("daily", 60.0, tuple(rates))
