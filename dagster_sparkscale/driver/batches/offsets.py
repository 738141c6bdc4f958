"""Offsets in Kafka's shape, which other sources have too: what a query has taken, and what is left.
Pure: no Spark, no clock."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dagster_sparkscale.driver.wire import LARGEST


def json_object(told: Any) -> Mapping[str, Any]:
    """JSON, or the text of it; empty if it is no object."""
    if isinstance(told, str):
        try:
            told = json.loads(told)
        except (ValueError, RecursionError):
            return {}
    return told if isinstance(told, Mapping) else {}


def whole_number(value: Any) -> int | None:
    """A number without its fraction; None: it is none, or beyond all bounds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if abs(value) < LARGEST else None  # NaN is not, either


def offsets(told: Any) -> dict[str, int] | None:
    """Offsets in Kafka's shape, {topic: {partition: offset}} or the JSON text of it, by
    `topic-partition`; None: they have another shape, or there are none."""
    flat: dict[str, int] = {}
    for topic, partitions in json_object(told).items():
        if not isinstance(partitions, Mapping):
            return None
        for partition, offset in partitions.items():
            if (number := whole_number(offset)) is None:
                return None
            flat[f"{topic}-{partition}"] = number
    return flat or None


class NotKnown(Exception):
    """A lag can't be told; says why, for people."""


def behind(end: Mapping[str, int] | None, latest: Mapping[str, int] | None) -> dict[str, int]:
    """Records that each partition has and the query has not taken.

    Args:
        end: of each partition, where the query is.
        latest: the newest offset of each.

    Raises:
        NotKnown: it can't be told of each: the newest offsets are not told; a partition is new, and
            where it begins is not told; one is gone; or its offsets have gone back, as those of a
            topic that was deleted and made anew.
    """
    if end is None or latest is None:
        raise NotKnown("Spark does not tell the newest offsets, as of a batch that is repeated")
    if gone := sorted(end.keys() - latest.keys()):
        raise NotKnown(f"{_named(gone)} gone from Kafka")
    if new := sorted(latest.keys() - end.keys()):
        raise NotKnown(f"{_named(new)} new, and not read yet")
    if back := sorted(each for each, at in end.items() if latest[each] < at):
        raise NotKnown(
            f"{_named(back)} at offset {latest[back[0]]}, and was read up to {end[back[0]]}: was "
            "the topic deleted and made anew?"
        )
    return {partition: latest[partition] - at for partition, at in end.items()}


def _named(partitions: Sequence[str]) -> str:
    more = f" and {len(partitions) - 1} more are" if len(partitions) > 1 else " is"
    return f"partition {partitions[0]}{more}"
