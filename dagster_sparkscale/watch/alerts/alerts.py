"""Chooses the alerts to send: each occurrence of a problem once, and once when it is over. Pure.

Alerts wait in a queue, in order, until the address has taken them. An address that is down gets
nothing twice, and later all that still stands; an alert that an address refuses is given up after a
while. The end of a problem is reported only where its begin was. A problem that comes and goes is
reported twice, and is over when it has stayed away for a while.
"""

import math
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from enum import Enum
from typing import Literal

from pydantic import FiniteFloat, TypeAdapter
from pydantic.dataclasses import dataclass

from dagster_sparkscale.durations import span
from dagster_sparkscale.watch.cursor import ROOM
from dagster_sparkscale.watch.fleet.news import News, Occurrence, what_is, what_was

MINUTE = 60.0

AFTER: Mapping[str, float] = {
    "failed": 0.0,
    "given_up": 0.0,
    "losing_data": 0.0,
    "unhealthy": 5 * MINUTE,
    "lagging": 5 * MINUTE,
    "orphaned": 5 * MINUTE,
    "pinned": 10 * MINUTE,
    "left_out": 0.0,
    "unwatched": 30 * MINUTE,
}
"""Every problem that there is, and the seconds it must last before somebody is told."""

WAITING = 100
"""Alerts that wait for an address, with which no problem is queued any more: it is when there is
room, if it still stands."""
LEAST = {"unwatched": 1200.0}
"""Seconds that a problem must last at least: a fleet in which nothing changes is told of every 10
minutes, by several sensors up to 3 minutes later where the code was loaded anew, and a tick or two
may fail."""
AGAIN = 1800.0
"""Seconds within which a problem that comes again is one that comes and goes, which is over when it
has stayed away for as long. Not so one that ends only where a person acts."""
_ENDS_BY_HAND = ("given_up",)
TOLD = 500
"""Problems that are remembered as told at most; beyond, the oldest that are not listed now are
forgotten: that they are over is not told, and where they are listed again they are told as new."""
SAME = 150.0
"""Seconds between two ticks of the autoscaler, twice. A problem that is dated anew by less, in two
observations one after the other, is the same one: its date was lost with a cursor."""
BEGINNING = 40
"""Characters of a problem's text in an alert that waits, where there is no room for all."""
REFUSALS = 3
"""How often an alert may be refused before it is dropped."""


@dataclass(frozen=True)
class ReportedProblem(Occurrence):
    """An occurrence that people have been told of, or are to be."""

    last: FiniteFloat = 0.0
    """When it was last among the problems, seconds since the epoch."""
    comes_and_goes: bool = False
    refused: bool = False
    """Whether the address wanted no alert of it."""

    def as_news(self) -> Occurrence:
        """The occurrence alone."""
        return Occurrence(self.stream, self.problem, self.since, self.text, self.page, self.health)


@dataclass(frozen=True)
class Alert:
    """What is told of an occurrence."""

    status: Literal["problem", "resolved"]
    """Whether the problem begins, or is over."""
    occurrence: Occurrence
    """The problem: of which stream, which one, since when, and what is said of it."""
    at: FiniteFloat
    """When it was decided to tell it, seconds since the epoch."""

    @property
    def id(self) -> str:
        """The id of the alert, which stays when it is sent twice."""
        one = self.occurrence
        return f"{one.stream}/{one.problem}/{one.since:.3f}/{self.status}"

    def __str__(self) -> str:
        one = self.occurrence
        if self.status == "resolved":
            lasted = span(max(0.0, self.at - one.since))
            was = what_was(one.problem, one.health)
            return f"{one.stream}: resolved after {lasted}; it {was}"
        what = f"{one.stream} {what_is(one.problem, one.health)}"
        return f"{what}: {one.text}" if one.text else what


class Outcome(Enum):
    """What came of telling an alert."""

    TAKEN = "taken"
    UNANSWERED = "unanswered"
    """Nobody took it now; somebody may later."""
    REFUSED = "refused"
    """The address understood the alert and does not want it."""


@dataclass
class AlertMemory:
    """What was told, and what is still to be: a sensor's cursor."""

    told: tuple[ReportedProblem, ...] = ()
    """The problems that stand."""
    over: tuple[ReportedProblem, ...] = ()
    """Reported problems that have been over for less than `AGAIN`."""
    queue: tuple[Alert, ...] = ()
    refusals: int = 0
    """Refusals of the first alert in the queue."""
    tried: bool = False
    """Whether the first in the queue may have arrived, though nobody answered."""
    dropped: int = 0
    """Alerts that were not delivered, or whose problem was over before they could be, and that
    nobody has been told of."""
    silent_since: FiniteFloat | None = None
    """When a tick first found that nothing was ever told of the fleet, or only ahead of the clock;
    seconds since the epoch."""

    @classmethod
    def load(cls, cursor: str | None) -> "AlertMemory":
        """Read a cursor. One that can't be read is a new beginning: what stands is told again."""
        try:
            return _MEMORY.validate_json(zlib.decompress(b64decode(cursor or "", validate=True)))
        except (ValueError, zlib.error):  # pydantic's is a ValueError
            return cls()

    def dump(self) -> str:
        """The cursor. Compressed: Dagster stores it with each tick. Where there is no room, what is
        needed least is left out; no alert, and of the problems that people know of only the oldest,
        as beyond `TOLD`."""
        text = self._text()
        less = (self._no_texts_told, self._texts_cut, self._nothing_over)
        for leave_out in (*less, *[self._fewer_told] * 8):
            if len(text) <= ROOM:
                break
            leave_out()
            text = self._text()
        return text

    def _text(self) -> str:
        return b64encode(zlib.compress(_MEMORY.dump_json(self), level=1)).decode()

    def _no_texts_told(self) -> None:
        # That a problem is over is said without.
        self.told = tuple(replace(one, text="") for one in self.told)

    def _texts_cut(self) -> None:
        self.queue = tuple(
            replace(one, occurrence=replace(one.occurrence, text=one.occurrence.text[:BEGINNING]))
            for one in self.queue
        )

    def _nothing_over(self) -> None:
        self.over = ()  # what comes again is told as new

    def _fewer_told(self) -> None:
        self.told = self.told[len(self.told) // 4 :]  # the oldest come first, and those not listed

    def learn(
        self, news: News, after: Mapping[str, float], now: float, resolved: bool = True
    ) -> None:
        """Queue what is to be told of `news`.

        Args:
            after: seconds that a problem must last, by its name; others are not told at all.
            now: seconds since the epoch.
            resolved: whether it is also told that one is over.
        """
        if news.at <= now:
            self.silent_since = None
        else:  # the clock was set back: when it was told is not known
            news = replace(news, at=self._silent_from(now))
        known = {_what(one): one for one in self.told}
        current = {_what(one): one for one in (*news.problems, *_of_the_news(news, after, now))}
        for what, one in current.items():
            before = known.get(what)
            if before and _is_the_same(before, one):
                current[what] = replace(one, since=before.since)
        lasting = {
            what
            for what, one in current.items()
            # Below 0: the clock was set back since, and how long it has lasted is not known.
            if one.problem in after and not 0 <= now - one.since < after[one.problem]
        }
        listed, unlisted, away, over = [], [], [], []
        for what, one in known.items():
            again = current.get(what)
            if again and again.since == one.since:
                listed.append(replace(one, last=now))
            elif not again and news.left_out and one.problem != "unwatched":
                unlisted.append(one)
            elif one.problem == "failed" and (one.stream, "given_up") in current:
                if (one.stream, "given_up") not in lasting:
                    listed.append(one)  # it stands until that is told in its place, or is over
                elif self._waits(one):
                    self._take_back(one)
            elif one.comes_and_goes and 0 <= now - one.last < AGAIN:
                away.append(one)
            else:
                over.append(one)
        self._end(over, now, resolved)
        stands = {_what(one) for one in (*listed, *away)}
        new = [one for what, one in current.items() if what in lasting and what not in stands]
        listed += self._begin(new, now)
        room, others = max(0, TOLD - len(listed)), [*unlisted, *away]
        self.told = (*others[max(0, len(others) - room) :], *listed)

    def _begin(self, new: Sequence[Occurrence], now: float) -> Iterator[ReportedProblem]:
        """Queue that there are problems, as far as there is room, and return which."""
        lately = {_what(one) for one in self.over}
        for one in new[: max(0, WAITING - len(self.queue))]:
            self.queue += (Alert("problem", one, now),)
            comes_and_goes = _what(one) in lately and one.problem not in _ENDS_BY_HAND
            yield ReportedProblem(**asdict(one), last=now, comes_and_goes=comes_and_goes)

    def _end(self, over: Iterable[ReportedProblem], now: float, resolved: bool) -> None:
        """Queue that problems are over, if people were told that there are."""
        lately = {_what(one): one for one in self.over if 0 <= now - one.last < AGAIN}
        for one in over:
            if self._waits(one):
                self._take_back(one)
                self.dropped += 1
            elif not one.refused:
                lately[_what(one)] = replace(one, text="", last=min(one.last, now))
                if resolved:
                    self.queue += (Alert("resolved", one.as_news(), now),)
        self.over = tuple(lately.values())[-TOLD:]

    def _waits(self, one: ReportedProblem) -> bool:
        """Whether people are still to be told that there is a problem, for certain."""
        return any(_begins(one, each) for each in self.queue[self.tried :])

    def _take_back(self, one: ReportedProblem) -> None:
        if _begins(one, self.queue[0]):
            self.refusals = 0
        self.queue = tuple(each for each in self.queue if not _begins(one, each))

    def hear_nothing(self, after: Mapping[str, float], now: float) -> None:
        """Queue that nothing was ever told of the fleet, once that has lasted.

        Args:
            after: seconds that a problem must last, by its name; others are not told at all.
            now: seconds since the epoch.
        """
        since = self._silent_from(now)
        lasted = now - since >= after.get("unwatched", math.inf)
        if lasted and _UNWATCHED not in map(_what, self.told):
            one = ReportedProblem(*_UNWATCHED, since, _SILENT.format("yet"), "", last=now)
            self.told += (one,)
            self.queue += (Alert("problem", one, now),)

    def _silent_from(self, now: float) -> float:
        """Since when there has been no news, as far as is known."""
        # Not ahead of the clock, which may have been set back.
        self.silent_since = min(now, now if self.silent_since is None else self.silent_since)
        return self.silent_since

    def settle(self, outcome: Outcome) -> bool:
        """Take the first of the queue for told, or not. Whether to go on with the next."""
        self.tried = outcome is Outcome.UNANSWERED
        if self.tried:
            return False
        if outcome is Outcome.REFUSED:
            self.refusals += 1
            if self.refusals < REFUSALS:
                return False
            one = self.queue[0].occurrence
            self.told = tuple(
                replace(each, refused=True) if _what(each) == _what(one) else each
                for each in self.told
            )
        self.dropped = 0 if outcome is Outcome.TAKEN else self.dropped + 1
        self.queue, self.refusals = self.queue[1:], 0
        return outcome is Outcome.TAKEN


_MEMORY = TypeAdapter(AlertMemory)
_SILENT = (
    "the autoscaler has told nothing of it {}: see in Dagster whether the sensor is on, and its "
    "last tick"
)
_MORE = ("fleet", "left_out")
_UNWATCHED = ("fleet", "unwatched")


def _begins(one: ReportedProblem, alert: Alert) -> bool:
    """Whether an alert says that there is this problem."""
    of = alert.occurrence
    return alert.status == "problem" and _what(of) == _what(one) and of.since == one.since


def _is_the_same(known: ReportedProblem, one: Occurrence) -> bool:
    """Whether a problem is one that people know of, though it may be dated otherwise."""
    return _what(one) == _MORE or known.comes_and_goes or abs(one.since - known.since) < SAME


def _what(one: Occurrence) -> tuple[str, str]:
    return one.stream, one.problem


def _of_the_news(news: News, after: Mapping[str, float], now: float) -> Iterator[Occurrence]:
    """What is wrong with what is told of the fleet itself."""
    if news.left_out:
        text = f"{news.left_out} more; see the page of the fleet"
        yield Occurrence(*_MORE, news.at, text, "")
    if now - news.at >= after.get("unwatched", math.inf):
        yield Occurrence(*_UNWATCHED, news.at, _SILENT.format("for long"), "")
