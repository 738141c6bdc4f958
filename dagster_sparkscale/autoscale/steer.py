"""A request to steer a stream: what is refused, and what it makes of the entries. Pure.

A request that has waited in a queue does not undo a later one: of two that set or resume the same,
the one counts that was asked for later, as far as clocks can tell.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Self

from dagster_sparkscale.clusters.errors import Overtaken
from dagster_sparkscale.clusters.records.overtaking import CLOCKS_DIFFER, Requester
from dagster_sparkscale.clusters.records.steering import (
    EFFECT,
    KINDS,
    Entries,
    Steered,
    newest,
    resumed,
    standing,
    with_entry,
)
from dagster_sparkscale.clusters.requests import Refused
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.durations import parse_duration

RESUME = "resume"
ACTIONS = (*KINDS, RESUME)
LONGEST = 3650 * 86400.0
"""Seconds for which an entry may be set at most."""
_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")


@dataclass(frozen=True)
class SteerRequest:
    """What somebody asks for."""

    stream: str
    action: str
    """One of `ACTIONS`."""
    size: int | None = None
    minimum: int | None = None
    maximum: int | None = None
    lasts: str | None = None
    """How long, as people write it; None: until it is resumed, or `until`."""
    until: str | None = None
    """A time of day in UTC, or a date and time of ISO 8601, by which it ends."""
    kinds: Sequence[str] = ()
    """Kinds to resume; empty: all."""


@dataclass(frozen=True)
class Asker:
    """The person or run that asks, why and when."""

    name: str
    reason: str
    asked_at: float
    """Seconds since the epoch."""
    now: float
    """Seconds since the epoch."""

    @classmethod
    def of(cls, requester: Requester, reason: str, now: float) -> Self:
        """The requester of an operation, who gives a reason."""
        asked_at = now if requester.asked_at is None else requester.asked_at
        return cls(requester.name, reason, asked_at, now)


def resume_it(stream: str, kind: str) -> str:
    """How an entry that a person has set is ended."""
    return f"`sparkscale resume {stream} {kind}` ends it"


def steered(entries: Entries, request: SteerRequest, asker: Asker, reach: Bounds) -> Entries:
    """The entries after `request`.

    Args:
        reach: the bounds of the stream; its least and its ceiling count.

    Raises:
        Refused: the request makes no sense, or can never be.
        Overtaken: another has set or ended the same since it was asked for.
    """
    for fault in _faults(request, reach):
        raise Refused(fault)
    until = _until(request, asker)
    if request.action == RESUME:
        keys = _keys(request.kinds)
        late = [key for key in keys if _is_later(newest(entries, key), asker)]
        left = [key for key in keys if key not in late]
        return resumed(entries, left, asker.name, asker.reason, asker.asked_at, asker.now)
    if (known := newest(entries, request.action)) is not None and _is_later(known, asker):
        raise Overtaken(
            f"{request.stream!r}: {known.by} has changed it {known.since - asker.asked_at:.0f} s "
            "after this was asked for"
        )
    entry = Steered(
        *(asker.name, asker.reason, asker.asked_at, until),
        size=request.size,
        minimum=request.minimum,
        maximum=request.maximum,
    )
    return with_entry(entries, request.action, entry, asker.now)


def pinned_by_hand(entries: Entries, size: int, lasts: float, asker: Asker) -> Entries:
    """The entries after a rescale by hand to `size`, which pins it.

    A pin that stands gets the new size and goes on for as long as it was to, if that is longer.
    Where the number of executors is paused, it stays as it is for longer than a pin would last.

    Args:
        lasts: seconds; 0: only a pin that stands gets the new size.
    """
    found = standing(entries, asker.now)
    pin = found.get("pin")
    if "pause" in found or (pin is None and not lasts) or _is_later(newest(entries, "pin"), asker):
        return entries
    until: float | None = asker.now + lasts
    if pin is not None:
        until = None if pin.until is None else max(pin.until, asker.now + lasts)
    entry = Steered(asker.name, asker.reason, asker.asked_at, until, size=size)
    return with_entry(entries, "pin", entry, asker.now)


def moment(text: str, now: float) -> float:
    """A time as people write it, in seconds since the epoch: `14:00`, the next one, or a date and
    time of ISO 8601. Without a time zone it is UTC.

    Raises:
        ValueError: the text is no time.
    """
    today = datetime.fromtimestamp(now, UTC)
    if (clock := _CLOCK.fullmatch(text.strip())) is not None:
        hour, minute = map(int, clock.groups())
        at = today.replace(hour=hour, minute=minute, second=0, microsecond=0)
        return (at if at > today else at + timedelta(days=1)).timestamp()
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError('must be a time of day, such as "14:00", or as "2026-11-24T14:00"') from (
            None
        )
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()


def duration(text: str) -> float:
    """How long an entry is to stand, in seconds.

    Raises:
        ValueError: the text is no duration, or one that can't be.
    """
    seconds = parse_duration(text)
    if not 0 < seconds <= LONGEST:
        raise ValueError("must be above 0 and at most 3650 d; left out, it stands until resumed")
    return seconds


def to_come(text: str, now: float, asked_at: float | None = None) -> float:
    """The end of an entry, as people write it, in seconds since the epoch.

    Args:
        asked_at: when it was asked for, after which a time of day is the next one; None: now.

    Raises:
        ValueError: the text is no time, or none to come.
    """
    at = moment(text, now if asked_at is None else asked_at)
    if at <= now:
        raise ValueError("is over; must be a time to come")
    return at


def _is_later(known: Steered | None, asker: Asker) -> bool:
    """Whether an entry is of a request that was made later. One ahead of the clock is of a clock
    that was wrong, and no later."""
    return (
        known is not None
        and known.since - asker.asked_at > CLOCKS_DIFFER
        and known.since - asker.now <= CLOCKS_DIFFER
    )


def _keys(kinds: Sequence[str]) -> Sequence[str]:
    if not kinds:
        return (*KINDS, EFFECT)
    return (*kinds, EFFECT) if "bounds" in kinds else tuple(kinds)


_OWN: dict[str, tuple[str, ...]] = {
    "pin": ("size", "lasts", "until"),
    "bounds": ("minimum", "maximum", "lasts", "until"),
    RESUME: ("kinds",),
}


def _faults(request: SteerRequest, reach: Bounds) -> Iterator[str]:
    """What is wrong with a request."""
    action = request.action
    own = _OWN.get(action, ("lasts", "until"))
    for each in fields(SteerRequest)[2:]:
        value = getattr(request, each.name)
        if value not in (None, ()) and each.name not in own:
            yield f"{each.name} = {value!r}: leave it out, {action} has none"
    if action == "pin" and request.size is None:
        yield "size: missing; must be the number of executors to pin it to"
    if action == "bounds" and request.minimum is None and request.maximum is None:
        yield "minimum and maximum: neither given; give one of them, or both"
    for name in ("size", "minimum", "maximum"):
        number: int | None = getattr(request, name)
        if number is not None and (fault := _unreachable(request.stream, number, reach)):
            yield f"{name} = {number}: {fault}"
    low, high = request.minimum, request.maximum
    if low is not None and high is not None and high < low:
        yield f"maximum = {high}: must be at least minimum = {low}"
    for kind in request.kinds:
        if kind not in KINDS:
            yield f"kinds = {kind!r}: must be one of {', '.join(KINDS)}"


def _unreachable(stream: str, executors: int, reach: Bounds) -> str | None:
    """Why a stream can't have so many executors; None: it can, as far as is known."""
    if executors < reach.least:
        return f"must be at least {reach.least}, the fewest that {stream!r} can run with"
    if reach.ceiling is not None and executors > reach.ceiling:
        return (
            f"must be at most {reach.ceiling}, as many as a driver of {stream!r} can have; to go "
            "higher, raise ceiling in its policy and restart it"
        )
    return None


def _until(request: SteerRequest, asker: Asker) -> float | None:
    """When the entry ends, seconds since the epoch; None: when it is resumed."""
    if request.lasts is not None and request.until is not None:
        raise Refused("lasts and until: both given; give one of them")
    if request.lasts is not None:
        try:
            return asker.now + duration(request.lasts)
        except ValueError as error:
            raise Refused(f"lasts = {request.lasts!r}: {error}") from None
    if request.until is None:
        return None
    try:
        return to_come(request.until, asker.now, asker.asked_at)
    except ValueError as error:
        raise Refused(f"until = {request.until!r}: {error}") from None
