"""The minutes of a stream: what was seen of it at each tick, and how many of them fit in one event.

An event carries every minute since the one before it, column by column. A column that never
changes is one value, one that was never measured is left out, and times are the seconds since the
minute before: ten minutes are some 500 characters, and 400 as an event carries them. Pure.
"""

import json
import reprlib
import zlib
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate
from typing import Any, get_args

from dagster_sparkscale.observe.evaluation import Evaluation

_USUAL = (
    b'gs","reason":"R of query ,"throttled":","limit_by":"person","limit":[,"receivers":1'
    b'"unknown""starting""failed""stopped""not started"[null,null,null'
    b'{"at":[180000000,60,60,61,60,60,60,60,60,60,60],"state":"running","epoch":1,'
    b'"ratio":[0.5,0.6,0.4,0.3],"overdue":[null,null,1.1],"lag":[0.5,1.2,4.5],'
    b'"registered":2,"requested":2,"processing_ms":[4010,5100,6200],'
    b'"scheduling_ms":[12,10,20],"input_rate":[1200,1000,1100],'
    b'"processed_rate":[2100,2300],"backlog":0,"pending":0,"completed":6,"failed":0,'
    b'"shards":8,"decision":[null,"scale to 3"],"peak_rate":[1200,1000],"delay":[12.5,13.1,14.2]}'
)
"""What minutes mostly say: compression begins with it, as an event is too short to learn it from.
Another text, and what was stored can't be read any more (RFC 1950, preset dictionary)."""
DIGITS = 3
"""Significant digits of what is measured: more would be noise, and bytes for ever."""
_LARGEST = 1e100
_YEAR_10000 = 253402300800
"""Seconds since the epoch; no clock shows more."""


@dataclass(frozen=True, slots=True)
class Minute:
    """What was seen of a stream at one tick. None: not measured, never zero."""

    at: int
    """When the tick began, seconds since the epoch."""
    state: str = "unknown"
    """`running`, `starting`, `failed`, `stopped`, `unknown` or `not started`."""
    epoch: int | None = None
    """The driver's number."""
    ratio: float | None = None
    """R of the worst query: mean processing time of its batches / batch interval."""
    overdue: float | None = None
    """Age of the batch in progress / batch interval, where that is above 1."""
    lag: float | None = None
    """Seconds behind the tip of the source."""
    registered: int | None = None
    """Executors that have registered with the driver."""
    requested: int | None = None
    """Executors asked of the cluster manager."""
    processing_ms: float | None = None
    """Milliseconds that a batch took, in the mean."""
    scheduling_ms: float | None = None
    """Milliseconds that a batch of a DStream waited, in the mean."""
    input_rate: float | None = None
    """Records per second."""
    processed_rate: float | None = None
    """Records per second of processing time."""
    backlog: int | None = None
    """Records that the sources have and no batch has taken yet."""
    pending: int | None = None
    """DStreams: batches that are due and not completed."""
    completed: int | None = None
    """Batches completed in the evaluation window."""
    failed: int | None = None
    """Batches of the evaluation window that failed."""
    shards: int | None = None
    """Shards that the sources read."""
    decision: str | None = None
    """What was decided, as `scale to 3`; None: to hold."""
    reason: str | None = None
    """Why, of a decision other than hold."""
    limit: float | None = None
    """Records per second that its queries might take in all; None: one of them had no limit."""
    throttled: str | None = None
    """The query whose input stood at its limit."""
    receivers: int | None = None
    """Receivers of a DStreams application that ran."""
    limit_by: str | None = None
    """`person`: a source stood under a live limit that a person had set."""
    peak_rate: float | None = None
    """Records per second of the fullest batch."""
    delay: float | None = None
    """Seconds from when the oldest record of a batch came until that batch was done, of the latest
    one."""


_COLUMNS = tuple(field.name for field in fields(Minute))

_TYPES = {field.name: {field.type, *get_args(field.type)} for field in fields(Minute)}
# What is measured is stored whole where it is.
_KINDS = {name: {*kinds, int} if float in kinds else kinds for name, kinds in _TYPES.items()}
DEFAULTS = {field.name: field.default for field in fields(Minute)}
"""What a column says that is not there; of all columns there are."""
_BESIDE = ("at", "state", "epoch", "decision", "reason")
_MEASURED = [name for name in _COLUMNS if name not in _BESIDE]
# What an evaluation calls otherwise.
_IN_AN_EVALUATION = {"backlog": "backlog_records", "pending": "pending_batches"}


def minute(
    at: float,
    state: str,
    epoch: int | None,
    seen: Evaluation | None,
    decision: str | None = None,
    reason: str | None = None,
) -> Minute:
    """The minute of one tick, to `DIGITS` digits."""
    measured: dict[str, Any] = {}
    for name in _MEASURED if seen is not None else ():
        value = getattr(seen, _IN_AN_EVALUATION.get(name, name))
        # One odd agent's quotient of two odd numbers must not spoil what is kept of all streams.
        if not isinstance(value, float) or -_LARGEST < value < _LARGEST:
            measured[name] = _short(value) if float in _TYPES[name] else value
    return Minute(int(at), state, epoch, decision=decision, reason=reason, **measured)


def pack(minutes: Sequence[Minute]) -> dict[str, Any]:
    """`minutes`, column by column, for JSON."""
    packed: dict[str, Any] = {}
    before = 0
    ats = []
    for each in minutes:
        ats.append(each.at - before)
        before = each.at
    packed["at"] = ats
    for name in _COLUMNS[1:]:
        values = [getattr(each, name) for each in minutes]
        first = values[0] if values else None
        if any(value != first for value in values):
            packed[name] = values
        elif first is not None:
            packed[name] = first
    return packed


def added(packed: Mapping[str, Any], minute: Minute) -> dict[str, Any]:
    """`packed`, which can be read, with one minute more: as if all were packed anew, at less
    cost."""
    if not (ats := packed.get("at")):
        return pack([minute])
    now: dict[str, Any] = {"at": [*ats, minute.at - sum(ats)]}
    for name in _COLUMNS[1:]:
        before, value = packed.get(name, DEFAULTS[name]), getattr(minute, name)
        if isinstance(before, list):
            now[name] = [*before, value]
        elif before != value:
            now[name] = [*[before] * len(ats), value]
        elif before is not None:
            now[name] = before
    return now


def unpack(packed: Mapping[str, Any]) -> list[Minute]:
    """The minutes that `pack` has packed. Columns of a newer release are passed over.

    Raises:
        ValueError: `pack` can't have made it.
    """
    ats, columns = _moments(packed), _columns(packed)
    each = [columns.get(name, [DEFAULTS[name]] * len(ats)) for name in _COLUMNS[1:]]
    return [Minute(*values) for values in zip(ats, *each, strict=True)]


def check(packed: Mapping[str, Any]) -> None:
    """See that `unpack` can read it, at less cost.

    Raises:
        ValueError: it can't.
    """
    _moments(packed)
    _columns(packed)


def stored(minutes: Sequence[Minute]) -> str:
    """`minutes` as an event carries them: packed and compressed. With a few hundred bytes more,
    SQLite would keep most events in two pages instead of one."""
    text = json.dumps(pack(minutes), separators=(",", ":"), allow_nan=False)
    to = zlib.compressobj(level=9, zdict=_USUAL)
    return b64encode(to.compress(text.encode()) + to.flush()).decode()


def restored(text: str) -> list[Minute]:
    """The minutes that an event carries.

    Raises:
        ValueError: `stored` can't have made it.
    """
    try:
        # Also of an older release, which had no dictionary.
        of = zlib.decompressobj(zdict=_USUAL)
        packed = json.loads(of.decompress(b64decode(text, validate=True)) + of.flush())
    except (ValueError, RecursionError, zlib.error) as error:
        raise ValueError(f"{reprlib.repr(text)}: must be compressed minutes: {error}") from None
    if not of.eof or of.unused_data:  # or its checksum is missing
        raise ValueError(f"{reprlib.repr(text)}: must be compressed minutes, whole and alone")
    if not isinstance(packed, dict):
        raise ValueError(f"{reprlib.repr(text)}: must hold an object")
    return unpack(packed)


def merged(parts: Iterable[Iterable[Minute]]) -> list[Minute]:
    """All minutes in order of time, each once: what was stored twice after a crash counts once."""
    return [each for _, each in sorted({each.at: each for part in parts for each in part}.items())]


def _moments(packed: Mapping[str, Any]) -> list[int]:
    """When the minutes were, seconds since the epoch."""
    steps = packed.get("at")
    if not isinstance(steps, list) or not all(type(step) is int for step in steps):
        raise ValueError(f"at = {reprlib.repr(steps)}: must be a list of whole numbers")
    ats = list(accumulate(steps))
    for at in ats:
        if not 0 <= at < _YEAR_10000:
            raise ValueError(f"at = {reprlib.repr(at)}: must be seconds since the epoch")
    return ats


def _columns(packed: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The columns that are there, a value for each minute."""
    minutes = len(packed["at"])
    return {
        name: _column(name, stored, minutes)
        for name, stored in packed.items()
        if name in _KINDS and name != "at"
    }


def _column(name: str, stored: Any, minutes: int) -> list[Any]:
    values: list[Any] = stored if isinstance(stored, list) else [stored]
    kinds = _KINDS[name]
    # The sensor reads a thousand streams a tick: no call for each value.
    fit = kinds.issuperset(map(type, values)) and (
        str in kinds
        # NaN is not, either.
        or all(-_LARGEST < value < _LARGEST for value in values if value is not None)
    )
    if not fit:
        raise ValueError(f"{name} = {reprlib.repr(stored)}: must be {_named(kinds)}")
    if not isinstance(stored, list):
        return values * minutes
    if len(values) != minutes:
        raise ValueError(f"{name}: {len(values)} values for {minutes} minutes")
    return values


def _named(kinds: Collection[Any]) -> str:
    if str in kinds:
        return "a text, or one a minute"
    return f"a {'number' if float in kinds else 'whole number'}, or one a minute"


def _short(value: float | None) -> float | int | None:
    """Round to `DIGITS` significant digits, to a whole number where that is the same."""
    if value is None:
        return None
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() else short
