"""Entries of a query's logs, as a change of its partitions writes them. Pure."""

import json
from collections.abc import Iterable
from typing import Any

from dagster_sparkscale.driver.state import layout


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


def unmoved(commit: str, entry: str) -> str:
    """The commit of a batch as it is where the batch has moved no watermark on
    (`MicroBatchExecution.populateStartOffsets`). The text itself where that can't be told.

    Args:
        entry: of the batch in the offset log.
    """
    lines = commit.split("\n")
    try:
        mark = json.loads(entry.split("\n")[1])["batchWatermarkMs"]
        lines[1] = json.dumps({**json.loads(lines[1]), "nextBatchWatermarkMs": mark})
    except (ValueError, KeyError, TypeError, IndexError):
        return commit
    return "\n".join(lines)


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
            marks = [told.get("batchWatermarkMs", 0), told.get("nextBatchWatermarkMs", 0)]
        except (ValueError, IndexError, AttributeError):
            return True
        if any(marks):
            return True
    return False
