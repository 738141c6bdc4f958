"""The history of a stream that ran: simulated, and stored as the sensor has it stored."""

import math
import random
from collections.abc import Sequence
from functools import cache

import dagster as dg

from dagster_sparkscale import Minute, RatioPolicy, StructuredStream
from dagster_sparkscale.advice.decider import AsInSensor
from dagster_sparkscale.backtest.loads import Load
from dagster_sparkscale.backtest.model import Application
from dagster_sparkscale.backtest.simulate import simulate
from tests.observe.stored import store

HOURS = 5
BEGAN = 1_800_000_000 // 86400 * 86400

STREAM = StructuredStream(
    name="clicks",
    program="none.py",
    batch_interval="10s",
    executor_cores=2,
    autoscale=RatioPolicy(max_executors=20),
)


def application(**fields: object) -> Application:
    plain = {"overhead": 0.8, "work": 0.0012, "partitions": 64, "noise": 0.05, "queues": False}
    return Application(STREAM.workload, **plain | fields)  # type: ignore[arg-type]


def waves(hours: float = HOURS) -> Load:
    """A load that goes up and down between 2 and 8 executors' worth every four hours."""
    chance = random.Random(7)
    rates = (
        5000 + 3500 * math.sin(minute / 38) + chance.gauss(0, 100)
        for minute in range(round(60 * hours))
    )
    return Load("waves", 60.0, tuple(rates))


@cache
def recorded(began_at: float = BEGAN) -> tuple[Minute, ...]:
    """The minutes of `STREAM` under its policy."""
    assert STREAM.autoscale is not None
    decider = AsInSensor(STREAM.autoscale, STREAM.workload)
    run = simulate(application(), waves(), decider, STREAM.bounds, began_at=began_at, initial=4)
    return run.minutes


def stored_in(instance: dg.DagsterInstance, minutes: Sequence[Minute]) -> None:
    """Store them, ten an event."""
    for first in range(0, len(minutes), 10):
        store(instance, dg.AssetKey(STREAM.name), minutes[first : first + 10])
