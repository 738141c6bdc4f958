"""Limits that change while a query runs: the agent of the driver writes them down, and they are
looked up at every batch."""

from dataclasses import replace
from typing import Any

from dagster_sparkscale.driver.live_limits import ESTIMATED, live_limits

from .options import Limits, Options

MOST = 1e18
"""More is no limit."""


def live(options: Options) -> Limits:
    """The limits of the options, with those that are set now in their place. An estimate is one
    more limit beside them."""
    given = live_limits(options.connection.stream)
    limits = options.limits
    if records := _number(given.get("maxRecordsPerTrigger")):
        most = max(1, round(records))
        if given.get(ESTIMATED) is True and limits.records is not None:
            most = min(most, limits.records)
        limits = replace(limits, records=most)
    if size := _number(given.get("maxBytesPerTrigger")):
        limits = replace(limits, bytes=max(1, round(size)))
    if seconds := _number(given.get("maxSpanPerTrigger")):
        limits = replace(limits, span_ms=max(1, round(seconds * 1000)))
    return limits


def heeded(limits: Limits, shards: int) -> int | None:
    """Records that a batch keeps to, as its shards share them; None: there is no such limit.

    A shard takes one at least: of more shards than records, the batch is larger than it may be.
    """
    return None if limits.records is None else shards * max(1, limits.records // max(1, shards))


def _number(value: Any) -> int | float | None:
    """A limit, or None for what is none: it may be of any type, not a number, or endless."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 < value < MOST else None
