"""Whether the partitions of a query's state are changed beside the stream. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from dagster_sparkscale.driver.begin.options import MAX_EXECUTORS
from dagster_sparkscale.driver.state import layout

FILES, KAFKA = "files", "kafka"
"""The sources that are read again as they were, and that notice nothing of it."""
BUSIEST = 0.7
"""The ratio of batch processing time to batch interval from which on the stream has nothing to
spare."""
LEAST_RETAINED = 10
"""Batches whose logs and state have to be retained: those that come while the copy is made are read
after that."""
MOST_REPLAYS = 40
"""Replays while the query runs, at most: each reads the whole state of the copy anew."""
_TREND = 10
"""Replays by which it is told whether a copy will have caught up by `MOST_REPLAYS`."""
ROOM = 2
"""How often there must be room for the state before it is rewritten, and before each replay: for
what that writes, which is the whole state where all keys change, and for what the query writes."""
_QUICK = 30.0
"""Seconds of copying that are not looked at any closer."""
NEAR = 1
"""Batches that may be left for the time in which the query stands still."""
_LARGEST = 1e12
"""Above all seconds and ratios that mean something; JSON has whole numbers that no float can be."""
_FORMATS = ("1",)
"""The formats of state stores whose versions have no ids of their own."""
_REPLAYED = frozenset(
    (
        "stateStoreSave",
        "dedupe",
        "dedupeWithinWatermark",
        "sessionWindowStateStoreSaveExec",
        "symmetricHashJoin",
    )
)
"""Operators that do the same with the same rows, and nothing else."""
_OWN_FUNCTIONS = frozenset(
    (
        "applyInPandasWithState",
        "transformWithStateInPandasExec",
        "transformWithStateInPySparkExec",
    )
)
"""Operators that call Python functions of the program with the state of a key."""
_WHOLE = frozenset(
    (
        # Their stores have several column families, and Spark reads the changes of one.
        "transformWithStateInPandasExec",
        "transformWithStateInPySparkExec",
        # Their stores are not closed after a batch, so that those with changelogs write no version
        # whole.
        "symmetricHashJoin",
    )
)
"""Operators whose changes alone can't be compared."""
_ANY_NUMBER = frozenset(("stateStoreSave", "dedupe"))
"""Operators of which several batches come to the same as one of all their rows, unless a watermark
is in force, or what they keep hangs on the order of rows."""


@dataclass(frozen=True)
class Limits:
    """What a change beside the stream may do, as it is asked for."""

    rows: int
    """Rows of the state from which on it is worth it: fewer are changed in place in seconds."""
    replay: bool
    """Whether the program's own state functions may be called a second time with the same rows."""
    within: float
    """Seconds that the copy has to catch up in."""
    busiest: float = BUSIEST
    """The ratio above which the stream has nothing to spare for a copy, unless it has more
    executors for that."""
    executors: int | None = None
    """Executors that it is to have in all meanwhile; None: as many as it has."""
    had: int | None = None
    """The number that was set when `executors` was decided: where another one has been set since,
    none are added. None: not known."""


class BadLimits(ValueError):
    """The request is none; the text says what is wrong."""


def limits_of(asked: Any) -> Limits | None:
    """Read the limits of a request; None: nothing is to be made beside the stream.

    Raises:
        BadLimits: it is something else.
    """
    if asked is None:
        return None
    if not isinstance(asked, Mapping):
        raise BadLimits(
            f"beside = {asked!r}: must have {', '.join(f.name for f in fields(Limits))}"
        )
    found: dict[str, Any] = {name: asked.get(name) for name in ("rows", "replay", "within")}
    rows, replay, within = found["rows"], found["replay"], found["within"]
    if type(rows) is not int or rows < 0:
        raise BadLimits(f"beside.rows = {rows!r}: must be a whole number, at least 0")
    if type(replay) is not bool:
        raise BadLimits(f"beside.replay = {replay!r}: must be true or false")
    if type(within) not in (int, float) or not 0 < within < _LARGEST:
        raise BadLimits(f"beside.within = {within!r}: must be seconds, above 0")
    busiest = asked.get("busiest", BUSIEST)
    if type(busiest) not in (int, float) or not 0 < busiest < _LARGEST:
        raise BadLimits(f"beside.busiest = {busiest!r}: must be a ratio, above 0")
    executors, had = _executors(asked, "executors", 1), _executors(asked, "had", 0)
    return Limits(rows, replay, float(within), float(busiest), executors, had)


def _executors(asked: Mapping[str, Any], name: str, least: int) -> int | None:
    number = asked.get(name)
    if number is not None and (type(number) is not int or not least <= number <= MAX_EXECUTORS):
        raise BadLimits(
            f"beside.{name} = {number!r}: must be a whole number from {least} to {MAX_EXECUTORS}, "
            "or null"
        )
    return number


@dataclass(frozen=True)
class Source:
    """A source that a query reads as a stream."""

    kind: str
    """`FILES`, or the name of its format."""
    cleans: bool = False
    """Whether it deletes or moves what it has read."""


def why_not_read_again(sources: Sequence[Source]) -> str | None:
    """Why what a query has read can't be read a second time, in words; None: it can."""
    if not sources:
        return "its sources are not known"
    for each in sources:
        if each.kind not in (FILES, KAFKA):
            return (
                f"it reads from {each.kind!r}, of which it is not known that a batch can be read "
                "again; of files and Kafka it is"
            )
        if each.cleans:
            return "its source deletes or moves files once they are read (cleanSource)"
    return None


def why_not_replayed(operators: Iterable[str], replay: bool) -> str | None:
    """Why the operators of a query can't be run a second time, in words; None: they can."""
    for name in sorted(set(operators)):
        if name in _OWN_FUNCTIONS and not replay:
            return (
                f"its program's own state functions ({name}) would be called a second time with "
                "the same rows: State(replay=True) allows that"
            )
        if name not in _REPLAYED | _OWN_FUNCTIONS:
            return f"it was not tried for operators such as {name}"
    return None


def why_not_stored(format: str, retained: int) -> str | None:
    """Why no copy can be made of where the state is, in words; None: it can.

    Args:
        format: the version of the format of checkpoints of state stores.
        retained: batches whose state is retained.
    """
    if format not in _FORMATS:
        return f"its state is kept in format {format} of state stores, which gives versions ids"
    if retained < LEAST_RETAINED:
        return (
            f"only {retained} batches are retained ({layout.RETAINED}), and "
            f"at least {LEAST_RETAINED} are needed, as the query runs on meanwhile"
        )
    return None


def why_no_room(size: int, free: int | None, times: int = ROOM) -> str | None:
    """Why the disk has no room for a copy, in words; None: it has, or does not tell. A disk that is
    full would end the query that runs.

    Args:
        size: bytes of the state as it is.
        free: bytes.
        times: how often there must be room for them.
    """
    if free is None or free >= times * size:
        return None
    return (
        f"its checkpoint's disk, or a quota there, has {free / 1e6:,.0f} MB left: for a state of "
        f"{size / 1e6:,.0f} MB there must be {times * size / 1e6:,.0f}, or the query might find it "
        "full"
    )


def why_no_shorter(copying: float, rewriting: float) -> str | None:
    """Why the query would stand still for as long as in place, in words; None: it would not.
    Without links, all that the copy comes to is copied while the query stands still.

    Args:
        copying: seconds that it takes to copy what the copy has come to.
        rewriting: seconds that the rewriting took, for which a query in place stands still.
    """
    if copying <= max(_QUICK, rewriting):
        return None
    return (
        f"to copy its new files would take {copying:.0f} s, and to rewrite them took "
        f"{rewriting:.0f} s: the query stands still for both, and for no shorter time than in place"
    )


def why_not_worth(rows: int, limits: Limits) -> str | None:
    """Why so little state is changed in place, in words; None: it is worth it."""
    if rows >= limits.rows:
        return None
    return f"its {rows:,} rows are fewer than {limits.rows:,}: in place takes less in all"


def why_too_busy(
    processing: Sequence[float], interval: float, busiest: float = BUSIEST
) -> str | None:
    """Why a stream has nothing to spare, in words; None: it has.

    Args:
        processing: seconds that each of its last batches took.
        interval: seconds between two batches; 0: each begins as soon as the last is done.
    """
    if interval <= 0:
        return "its batches follow each other without a pause, and the copy would never catch up"
    if not processing:
        return "how long its batches take is not known yet"
    ratio = sum(processing) / len(processing) / interval
    if ratio > busiest:
        return (
            f"its batches take {ratio:.2f} of their interval: above {busiest:g} there is nothing "
            "to spare for a copy"
        )
    return None


def takes_any_number(operators: Iterable[str], watermarked: bool) -> bool:
    """Whether several batches are replayed as one. What comes of it is compared, in any case."""
    return not watermarked and _ANY_NUMBER.issuperset(operators)


def tells_changes(operators: Iterable[str]) -> bool:
    """Whether it can be told what a batch has changed in all stores of these operators."""
    return _WHOLE.isdisjoint(operators)


def why_never(left: Sequence[int], seconds: float, within: float) -> str | None:
    """Why a copy does not catch up, in words; None: it may.

    Args:
        left: batches that were to be replayed before each replay, and are now.
        seconds: since the query runs with a copy beside it.
    """
    replays, now = len(left) - 1, left[-1]
    if seconds > within:
        return f"its copy has not caught up in {within:.0f} s: {now} batches are left"
    if replays >= MOST_REPLAYS:
        return f"its copy has not caught up by {replays} replays: {now} batches are left"
    if replays >= _TREND:
        before = left[-1 - _TREND]
        if (before - now) * (MOST_REPLAYS - replays) < (now - NEAR) * _TREND:
            return (
                f"its copy catches up too slowly: {now} batches are left, and {before} were "
                f"{_TREND} replays ago"
            )
    return None
