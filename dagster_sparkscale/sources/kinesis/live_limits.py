"""Limits that change while a query runs: the driver's agent writes them down, and every batch reads
them."""

from dataclasses import replace
from typing import Any

from dagster_sparkscale.driver.live_limits import ESTIMATED, live_limits

from .options import Limits, Options

MOST = 1e18
"""A number above this is no limit."""


def live(options: Options) -> Limits:
    """The limits of the options, or those set live instead. An estimate is one more limit beside
    them."""
    live = live_limits(options.connection.stream)
    limits = options.limits
    if records := _number(live.get("maxRecordsPerTrigger")):
        most = max(1, round(records))
        if live.get(ESTIMATED) is True and limits.records is not None:
            most = min(most, limits.records)
        limits = replace(limits, records=most)
    if size := _number(live.get("maxBytesPerTrigger")):
        limits = replace(limits, bytes=max(1, round(size)))
    if seconds := _number(live.get("maxSpanPerTrigger")):
        limits = replace(limits, span_ms=max(1, round(seconds * 1000)))
    return limits


def heeded(limits: Limits, shards: int) -> int | None:
    """The number of records that a batch keeps to, as its shards share it; None: no such limit.

    A shard takes one at least: with more shards than records, the batch exceeds its limit.
    """
    return None if limits.records is None else shards * max(1, limits.records // max(1, shards))


def _number(value: Any) -> int | float | None:
    """A limit, or None for a value that is no number, or endless."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 < value < MOST else None
