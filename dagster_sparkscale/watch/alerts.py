"""Which alerts are to be told: each occurrence of a problem once, and once when it is over. Pure.

What is to be told stands in a queue, in order, until the address has taken it. An address that is
down loses nothing and gets nothing twice; one that refuses an alert is not asked for ever.
"""

import math
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import Enum
from typing import Literal

from pydantic import FiniteFloat, TypeAdapter
from pydantic.dataclasses import dataclass

from dagster_sparkscale.watch.fleet_words import span

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

WORDS: Mapping[str, str] = {
    "failed": "has failed",
    "given_up": "has failed and is not restarted any more",
    "losing_data": "is losing data",
    "unhealthy": "is not well",
    "lagging": "is too far behind",
    "orphaned": "runs, and nobody declares it",
    "pinned": "is held at its maximum of executors",
    "left_out": "has more problems than are told one by one",
    "unwatched": "is not watched",
}

WAITING = 200
"""Alerts that wait for an address at most; then the oldest is dropped, and counted."""
TOLD = 500
"""Problems that are remembered as told at most; beyond, the oldest that are not listed now are
forgotten: that they are over is not told."""
SAME = 150.0
"""Seconds between two ticks of the autoscaler, twice. A problem that is dated anew by less, in two
observations one after the other, is the same one: its date was lost with a cursor."""
REFUSALS = 3
"""How often an alert may be refused before it is dropped."""


@dataclass(frozen=True)
class Occurrence:
    """A problem of a stream, as the fleet's observation has it."""

    stream: str
    problem: str
    since: FiniteFloat
    """Seconds since the epoch. Tells it from the same problem at another time."""
    text: str
    page: str
    """Path of the stream's page in Dagster's UI."""


@dataclass(frozen=True)
class News:
    """The fleet's latest observation."""

    of: str
    """Code location and cluster."""
    at: FiniteFloat
    problems: tuple[Occurrence, ...] = ()
    left_out: int = 0
    """Problems that there were no place for."""


@dataclass(frozen=True)
class Alert:
    """What is told of an occurrence."""

    status: Literal["problem", "resolved"]
    occurrence: Occurrence
    at: FiniteFloat
    """When it was decided to tell it, seconds since the epoch."""

    @property
    def id(self) -> str:
        """The same for the same alert, also if it is told twice."""
        one = self.occurrence
        return f"{one.stream}/{one.problem}/{one.since:.3f}/{self.status}"

    def __str__(self) -> str:
        one = self.occurrence
        what = f"{one.stream} {WORDS.get(one.problem, one.problem)}"
        if self.status == "resolved":
            return f"Over after {span(max(0.0, self.at - one.since))}: {what}"
        return f"{what}: {one.text}" if one.text else what


class Outcome(Enum):
    """What came of telling an alert."""

    TAKEN = "taken"
    UNANSWERED = "unanswered"
    """Nobody took it now; somebody may later."""
    REFUSED = "refused"
    """It was understood, and is not wanted."""


@dataclass
class AlertMemory:
    """What was told, and what is still to be: a sensor's cursor."""

    told: tuple[Occurrence, ...] = ()
    """Those that stand."""
    queue: tuple[Alert, ...] = ()
    refusals: int = 0
    """Of the first in the queue."""
    dropped: int = 0
    """Alerts that were not delivered, and that nobody has been told of."""
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
        """The cursor. Compressed: Dagster stores it with each tick."""
        return b64encode(zlib.compress(_MEMORY.dump_json(self), level=1)).decode()

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
            if before and (what == _MORE or abs(one.since - before.since) < SAME):
                current[what] = replace(one, since=before.since)
        lasting = {
            what
            for what, one in current.items()
            # Below 0: the clock was set back since, and how long it has lasted is not known.
            if one.problem in after and not 0 <= now - one.since < after[one.problem]
        }
        listed, unlisted, alerts = [], [], []
        for what, one in known.items():
            again = current.get(what)
            if again and again.since == one.since:
                listed.append(one)
            elif not again and news.left_out and one.problem != "unwatched":
                unlisted.append(one)
            elif one.problem == "failed" and (one.stream, "given_up") in current:
                if (one.stream, "given_up") not in lasting:
                    listed.append(one)  # it stands until that is told in its place, or is over
            elif resolved:
                alerts.append(Alert("resolved", one, now))
        stands = {_what(one) for one in listed}
        for what, one in current.items():
            if what in lasting and what not in stands:
                listed.append(one)
                alerts.append(Alert("problem", one, now))
        queue = (*self.queue, *alerts)
        left_out = max(0, len(queue) - WAITING)
        if left_out:
            self.refusals = 0
        room = max(0, TOLD - len(listed))
        self.told = (*unlisted[max(0, len(unlisted) - room) :], *listed)
        self.queue = queue[left_out:]
        self.dropped += left_out

    def hear_nothing(self, after: Mapping[str, float], now: float) -> None:
        """Queue that nothing was ever told of the fleet, once that has lasted.

        Args:
            after: seconds that a problem must last, by its name; others are not told at all.
            now: seconds since the epoch.
        """
        since = self._silent_from(now)
        lasted = now - since >= after.get("unwatched", math.inf)
        if lasted and _UNWATCHED not in map(_what, self.told):
            one = Occurrence(*_UNWATCHED, since, _NEVER, "")
            self.told += (one,)
            self.queue += (Alert("problem", one, now),)

    def _silent_from(self, now: float) -> float:
        """Since when there has been no news, as far as is known."""
        # Not ahead of the clock, which may have been set back.
        self.silent_since = min(now, now if self.silent_since is None else self.silent_since)
        return self.silent_since

    def settle(self, outcome: Outcome) -> bool:
        """Take the first of the queue for told, or not. Whether to go on with the next."""
        if outcome is Outcome.UNANSWERED:
            return False
        if outcome is Outcome.REFUSED:
            self.refusals += 1
            if self.refusals < REFUSALS:
                return False
        self.dropped = 0 if outcome is Outcome.TAKEN else self.dropped + 1
        self.queue, self.refusals = self.queue[1:], 0
        return outcome is Outcome.TAKEN


_MEMORY = TypeAdapter(AlertMemory)
_SILENT = (
    "the autoscaler has told nothing of it for long: see in Dagster whether the sensor is on, and "
    "its last tick"
)
_NEVER = (
    "the autoscaler has told nothing of it yet: see in Dagster whether the sensor is on, and its "
    "last tick"
)
_MORE = ("fleet", "left_out")
_UNWATCHED = ("fleet", "unwatched")


def _what(one: Occurrence) -> tuple[str, str]:
    return one.stream, one.problem


def _of_the_news(news: News, after: Mapping[str, float], now: float) -> Iterator[Occurrence]:
    """What is wrong with what is told of the fleet itself."""
    if news.left_out:
        text = f"{news.left_out} more; see the page of the fleet"
        yield Occurrence(*_MORE, news.at, text, "")
    if now - news.at >= after.get("unwatched", math.inf):
        yield Occurrence(*_UNWATCHED, news.at, _SILENT, "")
