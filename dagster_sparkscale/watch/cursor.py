"""A cursor as text: in columns, compressed, and no longer than it may be. Pure.

Dagster stores it with every tick, and on MySQL a tick has 64 KB for it and what stands beside it.
What there is no room for is left out, the least needed first, and the cursor says so.
"""

import json
import zlib
from base64 import b64decode, b85decode, b85encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dagster_sparkscale.observe.many import joined, parted
from dagster_sparkscale.watch.columns import columns, rows
from dagster_sparkscale.watch.marks import mark

ROOM = 56_000
"""Characters that a cursor has at most, of up to a thousand streams."""
A_STREAM = 56
"""Characters for each stream where there are more: what a stream needs is not less for that."""
LEFT_OUT = "left_out"
_NOW = "2:"
"""How a cursor of this form begins. One without it is of an older release: rows in base64."""

Cursor = dict[str, Any]
"""`streams`, a row each by name, and what the fleet remembers."""


ODD = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)
"""What is raised where JSON of another form is taken apart."""


def room_for(streams: int) -> int:
    """Characters that the cursor of so many streams has at most."""
    return max(ROOM, A_STREAM * streams)


def whole(cursor: Cursor) -> str | None:
    """`cursor` as text; None: it is longer than it may be."""
    text = _text(cursor)
    return text if len(text) <= _room(cursor) else None


def _room(cursor: Cursor) -> int:
    return room_for(len(cursor["streams"]))


def reduced(cursor: Cursor) -> tuple[str, list[str]]:
    """A cursor as text for which there is no room, and what it lacks, which it says itself under
    `LEFT_OUT`."""
    text, room = "", _room(cursor)
    for said, without in _LESS:
        less = without(cursor)
        if less == cursor:
            continue
        cursor = less | {LEFT_OUT: [*cursor.get(LEFT_OUT, ()), said]}
        text = _text(cursor)
        if len(text) <= room:
            break
    return text or _text(cursor), cursor.get(LEFT_OUT, [])


def read(text: str) -> str:
    """The cursor that was written, of this release or an older one, as JSON in rows.

    Raises:
        ValueError: `text` is none.
    """
    try:
        if not text.startswith(_NOW):
            return zlib.decompress(b64decode(text, validate=True)).decode()
        found = json.loads(zlib.decompress(b85decode(text.removeprefix(_NOW))))
        return json.dumps(_in_rows(found))
    except (*ODD, zlib.error) as error:
        raise ValueError(f"it can't be read: {error}") from None


def _text(cursor: Cursor) -> str:
    streams: Mapping[str, Mapping[str, Any]] = cursor["streams"]
    names = sorted(streams)
    each = [streams[name] for name in names]
    short = {
        **cursor,
        "names": names,
        "streams": columns([_without(row, "pending") for row in each]) if each else {},
        "pending": joined([row.get("pending") or {} for row in each]),
    }
    # Half a character, as a broken log may have it, must not make it unreadable.
    text = json.dumps(short, separators=(",", ":"), ensure_ascii=False)
    return _NOW + b85encode(zlib.compress(text.encode(errors="replace"), level=6)).decode()


def _in_rows(found: Any) -> Cursor:
    names = found.pop("names")
    every = rows(found["streams"], len(names))
    for row, pending in zip(every, parted(found.pop("pending")), strict=True):
        row["pending"] = pending
    return {**found, "streams": dict(zip(names, every, strict=True))}


def _without(row: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


def _each(change: Callable[[Mapping[str, Any]], dict[str, Any]]) -> Callable[[Cursor], Cursor]:
    """A change of each stream's row."""

    def changed(cursor: Cursor) -> Cursor:
        return {**cursor, "streams": {name: change(row) for name, row in cursor["streams"].items()}}

    return changed


_AS_THEY_ARE = ("headline",)


def _marked(row: Mapping[str, Any]) -> dict[str, Any]:
    """A stream's row with marks in the place of texts that are only compared."""
    told = {
        name: mark(value) if isinstance(value, str) and name not in _AS_THEY_ARE else value
        for name, value in row["told"].items()
    }
    checks = {}
    for check, outcome in row["checks"].items():
        passed, space, by = outcome.partition(" ")
        checks[check] = outcome if check == "orphan" else f"{passed}{space}{mark(by)}"
    return {**row, "told": told, "shown": mark(row["shown"]), "checks": checks}


def _texts_cut(most: int) -> Callable[[Cursor], Cursor]:
    def cut(cursor: Cursor) -> Cursor:
        problems = {
            stream: {
                name: {**standing, "text": standing["text"][:most]}
                for name, standing in standings.items()
            }
            for stream, standings in cursor["fleet"]["problems"].items()
        }
        return {**cursor, "fleet": {**cursor["fleet"], "problems": problems}}

    return cut


def _no_problems(cursor: Cursor) -> Cursor:
    # Never told of, the fleet has them read back from its last event.
    return {**cursor, "fleet": {**cursor["fleet"], "problems": {}, "told_at": 0.0}}


_NEEDED = ("decided_at", "told", "shown", "epoch", "checks", "evaluated", "pending", "spilled_at")
_OF_A_RUN = ("granted",)
"""What a run that is on its way may still take of a budget."""


_LESS: Sequence[tuple[str, Callable[[Cursor], Cursor]]] = (
    ("texts that are only compared, for which marks stand", _each(_marked)),
    ("the texts of problems, but for their beginnings", _texts_cut(40)),
    ("the texts of problems", _texts_cut(0)),
    (
        "what was learned and asked for, and today's usage, of each stream",
        _each(lambda row: {name: row[name] for name in (*_NEEDED, *_OF_A_RUN) if name in row}),
    ),
    (
        "the minutes that no event tells of yet",
        _each(lambda row: {**row, "pending": {}}),
    ),
    ("the problems, which the last event of the fleet has", _no_problems),
)
"""What is left out where there is no room, one after the other."""
