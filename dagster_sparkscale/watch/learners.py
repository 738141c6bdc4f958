"""What the policies have learned of the streams, as the process of the sensor remembers it.

Kept in the process: it follows from the stored minutes. After a restart of the code location these
are read back from the event log, for a few seconds a tick; until a stream's are, its policy decides
by what it sees alone.
"""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType, TracebackType
from typing import Self

from dagster import DagsterInstance

from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.declare.learner import BLOCK, Learner, since
from dagster_sparkscale.declare.policies import learned_of
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.observe.evaluation import Evaluation
from dagster_sparkscale.observe.history import history
from dagster_sparkscale.observe.minutes import Minute, merged
from dagster_sparkscale.operations import asset_key
from dagster_sparkscale.watch.memory import StreamMemory

READING = 10.0
"""Seconds from the begin of a tick until which minutes are read back."""
AT_LEAST = 2.0
"""Seconds of a tick for that, where looking at the streams has taken all of these: else where some
agents are slow nothing would ever be read back."""


@dataclass
class _Known:
    """What is known of one stream."""

    learner: Learner
    seen_at: int
    """When its last minute was, seconds since the epoch; 0: there is none."""

    @property
    def is_broken(self) -> bool:
        """Whether the learner has failed."""
        return isinstance(self.learner, _Broken)


class Learners:
    """What the policies have learned of all streams of a sensor."""

    def __init__(self) -> None:
        self._nothing: dict[str, Learner | None] = {}
        self._known: dict[str, _Known] = {}
        self._block = 0
        self._now = self._began = 0.0
        self._until: float | None = None

    def tick(self, declared: Collection[str], now: float) -> None:
        """A tick begins, at `now` in seconds since the epoch: forget what is not declared any
        more. Once a block those that have failed begin anew: the minute that made them fail may
        count no more, and what they lacked may be there."""
        self._now, before, self._block = now, self._block, int(now) // BLOCK
        self._known = {name: one for name, one in self._known.items() if name in declared}
        if self._block != before:
            failed = {name for name, one in self._nothing.items() if isinstance(one, _Broken)}
            failed |= {name for name, one in self._known.items() if one.is_broken}
            for name in failed:
                del self._nothing[name]
                self._known.pop(name, None)
        self._began, self._until = time.monotonic(), None

    def of(self, instance: DagsterInstance, stream: Stream, memory: StreamMemory) -> Learner | None:
        """What the policy of a stream has learned from all minutes so far. None: it learns nothing,
        or they are not read back yet."""
        name = stream.name
        if name not in self._nothing:
            self._nothing[name] = _nothing(stream)
        nothing = self._nothing[name]
        if nothing is None:
            return None
        known = self._known.get(name)
        # A tick that was tried out, or that Dagster has dropped, was none.
        if known is None or known.seen_at != memory.last_at:
            clock = time.monotonic()
            if self._until is None:
                self._until = max(self._began + READING, clock + AT_LEAST)
            if clock >= self._until:
                return None
            learner = _read_back(nothing, instance, stream, self._now, memory.minutes)
            known = self._known[name] = _Known(learner, memory.last_at)
        return known.learner

    def add(self, stream: str, minute: Minute) -> None:
        """Learn from what was seen in a minute, later than those before."""
        if (known := self._known.get(stream)) is not None:
            known.learner, known.seen_at = _after(known.learner, [minute]), minute.at


def learned_so_far(
    instance: DagsterInstance,
    streams: Iterable[Stream],
    now: float,
    seconds: float,
    pending: Mapping[str, Sequence[Minute]] = MappingProxyType({}),
) -> dict[str, Learner]:
    """What the policies of these streams have learned from the minutes that are stored, by name.

    Args:
        now: seconds since the epoch.
        seconds: for reading; streams whose turn does not come are left out.
        pending: of each stream, the minutes that the sensor has seen and that are not stored yet.
    """
    until, found = time.monotonic() + seconds, {}
    for stream in streams:
        nothing = _nothing(stream)
        if nothing is not None and time.monotonic() < until:
            since_then = pending.get(stream.name, ())
            found[stream.name] = _read_back(nothing, instance, stream, now, since_then)
    return found


def _nothing(stream: Stream) -> Learner | None:
    """What is known of a stream before its first minute; None: its policy learns nothing."""
    policy = stream.autoscale
    if policy is None:
        return None
    try:
        return learned_of(policy, stream.workload)
    except (Exception, SystemExit) as error:  # a user's own: it must not end everybody's tick
        return _Broken(error, error.__traceback__)


def _read_back(
    nothing: Learner,
    instance: DagsterInstance,
    stream: Stream,
    now: float,
    pending: Sequence[Minute] = (),
) -> Learner:
    try:
        stored = history(instance, asset_key(stream), since(now))
    except LookupError:  # nothing was ever stored of it
        stored = []
    # After a crash, minutes that have been stored are pending still.
    return _after(nothing, merged((stored, pending)))


def _after(learner: Learner, minutes: Collection[Minute]) -> Learner:
    try:
        for minute in minutes:
            learner = learner.after(minute)
    except (Exception, SystemExit) as error:  # a user's own
        return _Broken(error, error.__traceback__)
    return learner


@dataclass(frozen=True)
class _Broken:
    """A learner that has failed: to decide says why."""

    error: Exception | SystemExit
    where: TracebackType | None
    """The place of a failure. An error has each place where it was raised: once each tick, these
    would be more and more."""

    def after(self, minute: Minute, /) -> Self:
        """Learn nothing more."""
        return self

    def decide(self, bounds: Bounds, evaluation: Evaluation, /) -> Hold | ScaleTo:
        """Fail as it has failed."""
        raise self.error.with_traceback(self.where)
