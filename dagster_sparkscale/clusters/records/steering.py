"""The steering of a stream: how far people let Dagster change it by itself. Pure.

One entry of each kind stands in the stream's record, until it is resumed or its time is over.

    freeze   nothing is changed by itself, but a driver that failed is started again
    pin      the number of executors is this one
    pause    the number of executors stays as it is
    advise   decisions are made and shown, and not carried out
    bounds   executors move between these numbers, in place of the declared ones

An entry whose time is over counts as absent, and is kept for a day: a clock that was ahead when it
was read must not lose what a person has said. So does one that was resumed: a request of before,
which has waited in a queue, must find that it is overtaken.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

Kind = Literal["freeze", "pin", "pause", "advise", "bounds"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""The kinds, the most decisive first."""
EFFECT = "effect"
"""The key of the bounds that the autoscaler sets itself, after more executors did not help."""
KEPT = 86400.0
"""Seconds for which an entry is kept that does not stand any more."""

_EXCLUSIVE = ("pin", "pause")
"""Kinds of which a new one ends the other: each says what the number of executors is."""


@dataclass(frozen=True)
class Steered:
    """One entry: what is said, by whom, why and for how long."""

    by: str
    """The person or run that set it: `rescale run 1a2b3c4d`."""
    reason: str
    since: float
    """When it was asked for, seconds since the epoch."""
    until: float | None = None
    """Seconds since the epoch; None: until it is resumed."""
    size: int | None = None
    """The number of executors of a pin."""
    minimum: int | None = None
    """The fewest executors of bounds; None: as declared."""
    maximum: int | None = None
    """The most executors of bounds; None: as declared."""

    def stands(self, now: float) -> bool:
        """Whether its time is not over.

        Args:
            now: seconds since the epoch.
        """
        return self.until is None or now < self.until


Entries = Mapping[str, Steered]
"""The entries of a stream, by their kind or `EFFECT`."""


def standing(entries: Entries, now: float) -> dict[str, Steered]:
    """The entries whose time is not over."""
    return {key: entry for key, entry in entries.items() if entry.stands(now)}


def kept(entries: Entries, now: float) -> dict[str, Steered]:
    """The entries without those that have not stood for a day."""
    return {
        key: entry
        for key, entry in entries.items()
        if entry.until is None or now < entry.until + KEPT
    }


def with_entry(entries: Entries, key: str, entry: Steered, now: float) -> dict[str, Steered]:
    """Set the entry of `key`. A pin ends a pause, and a pause a pin."""
    others = _EXCLUSIVE if key in _EXCLUSIVE else (key,)
    left = {k: each for k, each in kept(entries, now).items() if k not in others}
    return {**left, key: entry}


def resumed(
    entries: Entries, keys: Collection[str], by: str, reason: str, at: float, now: float
) -> dict[str, Steered]:
    """End those entries of `keys` that stand.

    Args:
        by: who ends them.
        at: when that was asked for, seconds since the epoch.
    """
    ended = {
        key: replace(entry, by=by, reason=reason, since=at, until=min(at, now))
        for key, entry in standing(entries, now).items()
        if key in keys
    }
    return {**kept(entries, now), **ended}


def newest(entries: Entries, key: str) -> Steered | None:
    """The entry that decides whether a request to set `key` comes too late: the one that would be
    replaced, standing or not; None: there is none."""
    keys = _EXCLUSIVE if key in _EXCLUSIVE else (key,)
    found = [entries[each] for each in keys if each in entries]
    return max(found, key=lambda entry: entry.since, default=None)
