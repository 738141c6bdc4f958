"""Three days of a stream as they are stored, with a gap."""

import math
import time
from collections.abc import Iterator

from dagster_sparkscale.observe.minutes import Minute

DAYS = 3
GAP = (3 * 3600, 3600)
"""Seconds before now, from and until when nothing was measured."""
CLUSTER = "definitions.py/spark_cluster"


def minutes(now: float | None = None) -> Iterator[list[Minute]]:
    """The minutes of one event after the other."""
    end = int(time.time() if now is None else now)
    part: list[Minute] = []
    for at in range(end - DAYS * 86400, end - 60, 60):
        if GAP[1] < end - at <= GAP[0]:
            continue
        part.append(minute(at, end))
        if len(part) == 60:
            yield part
            part = []
    if part:
        yield part


def minute(at: int, end: int) -> Minute:
    wave = 0.5 + 0.4 * math.sin(2 * math.pi * at / 21600)
    executors = 2 + round(2 * wave)
    decided = at % 7200 < 60
    return Minute(
        at,
        "running",
        1,
        ratio=round(wave, 3),
        lag=round(4 * wave, 2),
        delay=round(12 * wave, 2),
        registered=executors,
        requested=executors + decided,
        input_rate=round(9000 * wave),
        processed_rate=12000,
        peak_rate=round(9900 * wave),
        limit=10_000,
        completed=6,
        decision=f"scale to {executors + 1}" if decided else None,
        reason="R of query counts" if decided else None,
    )
