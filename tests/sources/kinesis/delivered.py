"""Compares what was delivered with what was put, record for record."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

Row = tuple[str, int]
"""A record's key, and its number among the records of that key, from 0."""


def payload(key: str, number: int, size: int = 0) -> bytes:
    """The data of a numbered record, padded to `size` bytes if it is shorter."""
    data = json.dumps({"key": key, "n": number}).encode()
    if len(data) < size:
        filler = "x" * (size - len(data) - len(', "pad": ""'))
        data = json.dumps({"key": key, "n": number, "pad": filler}).encode()
    return data


def row(data: bytes | str) -> Row:
    """Key and number of a record, from its data."""
    content = json.loads(data)
    return content["key"], content["n"]


def differences(
    put: Mapping[str, Sequence[int]],
    rows: Iterable[Row],
    *,
    duplicates: bool = False,
    in_order: bool = True,
) -> list[str]:
    """What is wrong with delivered rows, a line each; empty if nothing is.

    `put` has the numbers of each key in the order in which the stream took them, `rows` are in the
    order of delivery. With `duplicates` a record may come again, at any time after its first.
    """
    came: dict[str, list[int]] = {}
    for key, number in rows:
        came.setdefault(key, []).append(number)
    wrong = []
    for key in sorted(put.keys() | came.keys()):
        expected, numbers = put.get(key, ()), came.get(key, [])
        counts = Counter(numbers)
        lost = [number for number in expected if number not in counts]
        unknown = sorted(counts.keys() - set(expected))
        if lost:
            wrong.append(f"key {key!r}: {len(lost)} of {len(expected)} lost: {_some(lost)}")
        if unknown:
            wrong.append(f"key {key!r}: {len(unknown)} never put: {_some(unknown)}")
        twice = [number for number in counts if counts[number] > 1]
        if twice and not duplicates:
            wrong.append(f"key {key!r}: {len(twice)} came more than once: {_some(twice)}")
        if in_order:
            missing, known = set(lost), set(expected)
            first = [number for number in dict.fromkeys(numbers) if number in known]
            should = [number for number in expected if number not in missing]
            for at, (is_, was) in enumerate(zip(first, should, strict=True)):
                if is_ != was:
                    wrong.append(f"key {key!r}: out of order: {is_} came as number {at}, not {was}")
                    break
    return wrong


def _some(numbers: Sequence[int]) -> str:
    shown = ", ".join(str(number) for number in numbers[:8])
    return shown + (", ..." if len(numbers) > 8 else "")
