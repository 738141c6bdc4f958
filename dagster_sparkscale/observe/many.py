"""The minutes of many streams as one, as a cursor and an event of the fleet carry them.

Column by column over all streams: a thousand streams have much in common, and what each has by
itself is a number or two a minute. Pure.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

from dagster_sparkscale.observe.minutes import DEFAULTS, check

COUNTS = "counts"
_COLUMNS = DEFAULTS.keys() - {"at"}


def joined(packs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The minutes of each stream, packed by `minutes.pack`, in one such pack: stream by stream, and
    how many are of each."""
    counts = [len(pack.get("at", ())) for pack in packs]
    ats: list[int] = []
    before = 0
    for pack in packs:
        for at in accumulate(pack.get("at", ())):
            ats.append(at - before)
            before = at
    whole: dict[str, Any] = {COUNTS: counts, "at": ats}
    for name in dict.fromkeys(name for pack in packs for name in pack if name in _COLUMNS):
        values: list[Any] = []
        for pack, count in zip(packs, counts, strict=True):
            value = pack.get(name, DEFAULTS[name])
            values += value if isinstance(value, list) else [value] * count
        if values:
            whole[name] = _short(values)
    return whole


def parted(whole: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What was `joined`.

    Raises:
        ValueError: `joined` can't have made it.
    """
    counts = whole.get(COUNTS)
    if not isinstance(counts, list) or not all(type(each) is int and each >= 0 for each in counts):
        raise ValueError(f"{COUNTS} = {str(counts)[:80]}: must be a list of whole numbers")
    check(whole)
    ats = list(accumulate(whole["at"]))
    if sum(counts) != len(ats):
        raise ValueError(f"{COUNTS}: {sum(counts)} minutes, and there are {len(ats)}")
    pack = {name: value for name, value in whole.items() if name in _COLUMNS}
    parts: list[dict[str, Any]] = []
    begin = 0
    for count in counts:
        parts.append(_part(pack, ats[begin : begin + count], begin, begin + count))
        begin += count
    return parts


def _part(columns: Mapping[str, Any], ats: list[int], begin: int, end: int) -> dict[str, Any]:
    if not ats:
        return {}
    steps = [ats[0], *(at - before for before, at in pairwise(ats))]
    part: dict[str, Any] = {"at": steps}
    for name, column in columns.items():
        value = _short(column[begin:end]) if isinstance(column, list) else column
        if value is not None:
            part[name] = value
    return part


def _short(values: list[Any]) -> Any:
    """One value where all are the same."""
    first = values[0]
    return first if all(value == first for value in values) else values
