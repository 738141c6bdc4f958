"""The steering in force of a stream, and what it makes of decisions. Pure.

A person's entries stand in the record; those of a calendar follow from the declaration and the
time; the autoscaler has bounds of its own. A person's entry beats the calendar's of its kind. Of
several kinds the most decisive counts: freeze, pin, pause, advise; bounds apply beside each. What
an entry keeps from being done is still decided, and the reason says what that would be.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from dagster_sparkscale.clusters.errors import Overtaken
from dagster_sparkscale.clusters.records.steering import (
    EFFECT,
    KINDS,
    Entries,
    Kind,
    Steered,
    standing,
)
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.calendar import Moment, Spell
from dagster_sparkscale.declare.decisions import Decision, Hold, ScaleTo
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.markdown import clock
from dagster_sparkscale.once import once

Source = Literal["person", "calendar", "autoscaler"]


@dataclass(frozen=True)
class Entry:
    """One entry in force, and where it comes from."""

    kind: Kind
    source: Source
    steered: Steered

    def what(self) -> str:
        """What it does, for people: `pinned to 6`."""
        of = self.steered
        if self.kind == "pin":
            return f"pinned to {of.size}"
        if self.kind == "bounds":
            low = "" if of.minimum is None else f"at least {of.minimum}"
            high = "" if of.maximum is None else f"at most {of.maximum}"
            return f"bounds of {' and '.join(filter(None, (low, high)))} executors set"
        return {"freeze": "frozen", "pause": "paused", "advise": "advice only, set"}[self.kind]

    def in_words(self, now: float) -> str:
        """What it does, who set it, until when and why: `pinned to 6 by rescale run 1a2b3c4d until
        14:00 UTC (load test)`.

        Args:
            now: seconds since the epoch.
        """
        reason = f" ({self.steered.reason})" if self.steered.reason else ""
        return f"{self.what()} by {self.steered.by} {self.ends(now)}{reason}"

    def ends(self, now: float) -> str:
        """Until when it stands, for people."""
        until = self.steered.until
        return "until it is resumed" if until is None else f"until {_when(until, now)}"


@dataclass(frozen=True)
class Steering:
    """What steers a stream at a moment."""

    now: float
    """Seconds since the epoch."""
    entries: tuple[Entry, ...] = ()
    """The most decisive first; at most one of each kind and source."""
    ahead: str | None = None
    """What the calendar says next and from when, for people; None: there is no calendar."""

    def of(self, *kinds: Kind) -> Entry | None:
        """The most decisive entry of these kinds; None: there is none."""
        return next((each for each in self.entries if each.kind in kinds), None)

    @property
    def decisive(self) -> Entry | None:
        """The entry that says what may be done at all; None: there are bounds alone, or nothing."""
        return self.of("freeze", "pin", "pause", "advise")

    @property
    def barring(self) -> Entry | None:
        """The entry by which nothing is changed by itself, be it the number of executors or
        another thing; None: there is none."""
        return self.of("freeze", "advise")

    def in_words(self, entry: Entry) -> str:
        """One of the entries as people read it at this moment."""
        return self.lines[self.entries.index(entry)]

    @once
    def lines(self) -> tuple[str, ...]:
        """All entries, a line each."""
        # Once: each moment in it costs more than all else of an entry.
        return tuple(entry.in_words(self.now) for entry in self.entries)


def _of_calendar(spells: Iterable[Spell]) -> dict[Kind, Steered]:
    """Windows that hold as entries, by kind."""
    entries: dict[Kind, Steered] = {}
    for spell in spells:
        window = spell.window
        low, high = window.bounds or (None, None)
        entries[window.kind] = Steered(
            *("calendar", window.reason, spell.since, spell.until), minimum=low, maximum=high
        )
    return entries


def _when(at: float, now: float) -> str:
    """A moment, with its day where that is not today: `14:00 UTC`."""
    today = clock(at, now)
    return f"{today} UTC" if len(today) == len("14:00") else clock(at)


def _ahead(moment: Moment, now: float) -> str:
    """What a calendar says next and from when, for people."""
    entries = _of_calendar(moment.following).items()
    said = [Entry(kind, "calendar", steered).in_words(now) for kind, steered in entries]
    return f"from {_when(moment.until, now)} on: {', '.join(said) or 'as declared'}"


def in_force(record: Record | None, stream: Stream, now: float) -> Steering:
    """What steers `stream` now.

    Args:
        record: what is remembered of it; None: nothing.
        now: seconds since the epoch.
    """
    entries = {} if record is None else record.steering
    if stream.calendar is None:
        return combined(entries, {}, now) if entries else Steering(now)
    moment = stream.calendar.at(now)
    steering = combined(entries, _of_calendar(moment.holding), now)
    return replace(steering, ahead=_ahead(moment, now))


def combined(entries: Entries, calendar: Mapping[Kind, Steered], now: float) -> Steering:
    """Both a person's entries and those of a calendar: the person's beats one of its kind."""
    by_hand = standing(entries, now)
    found: list[Entry] = []
    for kind in KINDS:
        if kind in by_hand:
            found.append(Entry(kind, "person", by_hand[kind]))
        elif kind in calendar and calendar[kind].stands(now):
            found.append(Entry(kind, "calendar", calendar[kind]))
    if EFFECT in by_hand:
        found.append(Entry("bounds", "autoscaler", by_hand[EFFECT]))
    return Steering(now, tuple(found))


def bounded(bounds: Bounds, steering: Steering) -> Bounds:
    """The bounds in force: those that were set stand for the declared ones, as far as the driver
    can have so many executors. Of two maxima of different sources the smaller one counts."""
    for entry in steering.entries:
        if entry.kind != "bounds":
            continue
        low, high = entry.steered.minimum, entry.steered.maximum
        if entry.source == "autoscaler" and high is not None:
            # Between what was said before: it takes nothing back that a person has asked for.
            high = bounds.clamp(high)
        minimum = bounds.minimum if low is None else bounds.within_reach(low)
        maximum = bounds.maximum if high is None else bounds.within_reach(high)
        if maximum is not None and maximum < minimum:
            # The side that was set counts; of both, the minimum, as in Spark.
            minimum, maximum = (minimum, minimum) if low is not None else (maximum, maximum)
        note = bounds.note if maximum == bounds.maximum else steering.in_words(entry)
        least = bounds.minimum_note if minimum == bounds.minimum else steering.in_words(entry)
        bounds = replace(bounds, minimum=minimum, maximum=maximum, note=note, minimum_note=least)
    return bounds


def allowed(bounds: Bounds, steering: Steering) -> Bounds:
    """The bounds of a rescale: those in force but the autoscaler's own, which bind no person, and
    the number that the stream is pinned to."""
    others = tuple(each for each in steering.entries if each.source != "autoscaler")
    bounds = bounded(bounds, replace(steering, entries=others))
    if (pin := steering.of("pin")) is None:
        return bounds
    size = bounds.within_reach(pin.steered.size or bounds.minimum)
    maximum = None if bounds.maximum is None else max(bounds.maximum, size)
    least = bounds.minimum_note if size >= bounds.minimum else None
    minimum = min(bounds.minimum, size)
    return replace(bounds, minimum=minimum, maximum=maximum, minimum_note=least)


def refuse_if_barred(steering: Steering) -> None:
    """Refuse what was decided before its stream was frozen, or advised only.

    Raises:
        Overtaken: it is so by now.
    """
    _overtaken_by(steering.barring, steering)


def refuse_rescale_if_barred(
    steering: Steering, target: int, requested: int | None, bounds: Bounds
) -> None:
    """Refuse a rescale that was decided before its stream was steered. A pin bars none that leads
    towards its size.

    Args:
        requested: the number that the driver has as its target; None: not known.
        bounds: as far as the driver can have executors.

    Raises:
        Overtaken: it is steered by now.
    """
    entry = steering.decisive
    if entry is not None and entry.kind == "pin" and entry.steered.size is not None:
        size = bounds.within_reach(entry.steered.size)
        now = size if requested is None else requested
        if min(now, size) <= target <= max(now, size):
            return
    _overtaken_by(entry, steering)


def _overtaken_by(entry: Entry | None, steering: Steering) -> None:
    if entry is not None:
        raise Overtaken(f"since it was decided, the stream is {steering.in_words(entry)}")


def steer(
    decision: Hold | ScaleTo, steering: Steering, requested: int | None, bounds: Bounds
) -> Hold | ScaleTo:
    """What happens to the number of executors where the policy has decided `decision`.

    Args:
        requested: the number that the driver has as its target; None: not known.
        bounds: as far as the driver can have executors.
    """
    entry = steering.decisive
    if entry is None:
        return decision
    if entry.kind == "pin":
        return _pinned(decision, entry, steering, requested, bounds)
    if isinstance(decision, Hold):
        return decision
    said = steering.in_words(entry)
    return Hold(f"{said}, the policy would go to {decision.target}: {decision.reason}")


def _pinned(
    decision: Hold | ScaleTo,
    entry: Entry,
    steering: Steering,
    requested: int | None,
    bounds: Bounds,
) -> Hold | ScaleTo:
    assert entry.steered.size is not None
    size = bounds.within_reach(entry.steered.size)
    would = "hold" if isinstance(decision, Hold) else f"go to {decision.target}"
    said = steering.in_words(entry)
    if size != entry.steered.size:
        said += f", of which the driver can have {size}"
    said += f", the policy would {would}: {decision.reason}"
    broken = isinstance(decision, Hold) and decision.broken
    if requested is None:
        return Hold(f"the driver's number of executors is not known; {said}", broken=broken)
    return Hold(said, broken=broken) if requested == size else ScaleTo(size, said)


def beside(decision: Decision, steering: Steering) -> Decision:
    """What happens where something other than the number of executors was decided."""
    entry = steering.barring
    if entry is None or decision.operation is None:
        return decision
    return Hold(f"{steering.in_words(entry)}; otherwise: {decision}: {decision.reason}")
