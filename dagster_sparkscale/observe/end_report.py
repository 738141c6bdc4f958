"""What a driver that has ended has left: its last words, or, without, the end of its log; and, of
one that was asked to stop, how that went. Pure."""

import json
import re

from pydantic import TypeAdapter

from dagster_sparkscale.driver.ending.end_report import (
    MARKER,
    EndReport,
    LineageEnd,
    Slots,
    Stopped,
)
from dagster_sparkscale.typed_json import Malformed, read

__all__ = [
    "EndReport",
    "LineageEnd",
    "Slots",
    "Stopped",
    "drained",
    "raised",
    "read_end_report",
    "read_lineage_end",
    "read_slots",
    "read_stopped",
]

_REPORT, _STOPPED, _SLOTS = TypeAdapter(EndReport), TypeAdapter(Stopped), TypeAdapter(Slots)
_LINEAGE = TypeAdapter(LineageEnd)

_BEGINS = "Traceback (most recent call last):"
_RAISED = re.compile(r"(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*)(: .*)?")
_LONGEST = 200


def read_end_report(text: str) -> EndReport | None:
    """What a driver has left in the file that it was given for it, or in its log; None: nothing, or
    nothing that can be understood. Unknown fields are passed over: it may be newer than this side.

    Of several in a log only the last counts: what it has said before may not be so any more.
    """
    said = text.rpartition(MARKER)[2]
    try:
        # Others may write into the same line.
        found = json.JSONDecoder().raw_decode(said.lstrip())[0]
        return read(_REPORT, json.dumps(found))
    except (ValueError, RecursionError, Malformed):
        return None


def raised(log: str) -> str | None:
    """What the last traceback in `log` says was raised, in one line of `_LONGEST` characters; None
    where there is none.

    Whoever has died with an exit code and no traceback after an earlier one has that one told: it
    is the last that the log knows.
    """
    _, begun, after = log.rpartition(_BEGINS)
    for line in after.splitlines() if begun else ():
        # Others may write into the same log in between.
        if found := _RAISED.fullmatch(line.rstrip()):
            text = f"{found[1]}{found[2] or ''}"
            shown = "".join(each if each.isprintable() else " " for each in text)
            return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 3]}..."
    return None


def read_stopped(text: bytes | str) -> Stopped:
    """Read what a driver has left, as `typed_json.read` does: it may be newer than this side."""
    return read(_STOPPED, text)


def read_slots(text: bytes | str) -> Slots:
    """Read which task slots a driver's real-time queries have lacked.

    Raises:
        Malformed: as for `read_stopped`.
    """
    return read(_SLOTS, text)


def read_lineage_end(text: bytes | str) -> LineageEnd:
    """Read how a driver's lineage was told to have ended.

    Raises:
        Malformed: as for `read_stopped`.
    """
    return read(_LINEAGE, text)


def drained(stopped: Stopped) -> bool | None:
    """Whether nothing of a driver's queries was cut, and all processed that its receivers had
    received; None: of some it is not known, as of one that ended before it ran any: what the driver
    before it left to be done may be there still."""
    known = [query.drained for query in stopped.queries]
    if False in known:
        return False
    return True if known and None not in known else None
