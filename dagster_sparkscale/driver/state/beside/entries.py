"""Entries of a query's logs, as a change of its partitions writes them. Pure."""

import json
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from dagster_sparkscale.driver.state import layout

_ENDED_AT = "nextBatchWatermarkMs"
"""The watermark that a batch has moved on to, by its commit."""


def with_partitions(entry: str, partitions: int) -> str:
    """An entry of the offset log as it would be with another number of partitions: what Spark's
    own repartitioning writes (`OfflineStateRepartitionRunner`).

    Raises:
        Unreadable: the text is no such entry.
    """
    layout.bound(entry, "offsets")
    lines = entry.split("\n")
    try:
        settings: Any = json.loads(lines[1])
        settings["conf"] = {**settings["conf"], layout.PARTITIONS: str(partitions)}
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise layout.Unreadable(f"offsets: its settings can't be read: {error}") from None
    lines[1] = json.dumps(settings, separators=(",", ":"))
    return "\n".join(lines)


def ended_alike(came: str, commit: str, entry: str, once_more: bool) -> bool:
    """Whether a batch that was run again has ended as it did.

    As after any start, Spark does not know how far each of several watermarks had come, and may
    move the least of them on later, or less far (`WatermarkTracker.updateWatermark`). No state
    hangs on it: the next batch has its watermark in its own entry.

    Args:
        came: its commit as it is now.
        commit: its commit as it was.
        entry: of it in the offset log.
        once_more: whether it was run from where it has ended: without rows, which move no watermark
            on.
    """
    now, was = _parsed(came), _parsed(commit)
    with suppress(ValueError, KeyError, TypeError, IndexError):
        begun_at = json.loads(entry.split("\n")[1])["batchWatermarkMs"]
        if once_more:
            was[1][_ENDED_AT] = begun_at
        elif begun_at <= now[1][_ENDED_AT] <= was[1][_ENDED_AT]:
            was[1][_ENDED_AT] = now[1][_ENDED_AT]
    return now == was


def same(one: str, other: str) -> bool:
    """Whether two entries say the same, whatever the order of the fields."""
    return _parsed(one) == _parsed(other)


def _parsed(entry: str) -> list[Any]:
    def line(text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError:
            return text

    return [line(each) for each in entry.rstrip("\n").split("\n")]


def watermarked(entries: Iterable[str]) -> bool:
    """Whether a watermark has come into force by any of these entries of either log, or may have:
    one that can't be read."""
    for entry in entries:
        try:
            told: Any = json.loads(entry.split("\n")[1])
            marks = [told.get("batchWatermarkMs", 0), told.get(_ENDED_AT, 0)]
        except (ValueError, IndexError, AttributeError):
            return True
        if any(marks):
            return True
    return False
