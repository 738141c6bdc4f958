"""Histories of streams, for tests of what is made of them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dagster_sparkscale.backpressure.advice import LimitsNow
from dagster_sparkscale.observe.minutes import Minute

BEGAN = 1_700_000_000
INTERVAL = 10.0
CLICKS = "clicks.maxOffsetsPerTrigger"


def minute(number: int = 0, **fields: Any) -> Minute:
    """A minute of a driver with 2 executors, which do 500 records/s each, and are busy for 0.7 of
    the time: 7000 records of each interval of 10 s."""
    plain: dict[str, Any] = {
        "state": "running",
        "epoch": 1,
        "ratio": 0.7,
        "registered": 2,
        "requested": 2,
        "processing_ms": 7000,
        "input_rate": 700,
        "processed_rate": 1000,
        "completed": 6,
        "failed": 0,
    }
    return Minute(BEGAN + 60 * number, **plain | fields)


def minutes(count: int = 480, first: int = 0, **fields: Any) -> list[Minute]:
    """So many of them, one after the other."""
    return [minute(first + number, **fields) for number in range(count)]


def but(whole: Sequence[Minute], numbers: Sequence[int], **fields: Any) -> list[Minute]:
    """`whole`, some of them otherwise."""
    chosen = set(numbers)
    return [replace(m, **fields) if n in chosen else m for n, m in enumerate(whole)]


def in_force(**fields: Any) -> LimitsNow:
    """Of a stream with one query, that reads one source without a limit."""
    plain: dict[str, Any] = {"values": {CLICKS: None}, "interval": INTERVAL, "start": 2}
    return LimitsNow(**{"queries": 1, **plain, **fields})
