"""What the sensor remembers from one tick to the next: its cursor, with types.

Nothing here is needed for safety. A lost cursor costs a stream the minutes that Dagster had not
been told of, one repeated check evaluation, one early event, and perhaps the look at a batch. Pure.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pydantic import ConfigDict, FiniteFloat, TypeAdapter

from dagster_sparkscale.autoscale.scale_down import NOTHING_ASKED, Asked
from dagster_sparkscale.observe.minutes import Minute, added, check, merged, pack, unpack
from dagster_sparkscale.observe.usage import Usage
from dagster_sparkscale.watch import cursor as cursors
from dagster_sparkscale.watch.coverage import NEVER, Evaluated
from dagster_sparkscale.watch.fleet.memory import FleetMemory


@dataclass(frozen=True)
class Reported:
    """What the last event said of a stream, as far as a change of it is news."""

    __pydantic_config__ = ConfigDict(extra="allow")  # for the news of capabilities

    at: FiniteFloat = 0.0
    """When, seconds since the epoch; 0: never."""
    headline: str = ""
    epoch: int | None = None
    registered: int | None = None
    requested: int | None = None
    overloaded: bool = False
    late: bool = False
    failing: str = ""
    """The health checks that fail, and by what."""
    news: Mapping[str, str] = field(default_factory=dict)
    """What capabilities had to say last, in words, each under keys of its own."""
    lesser_at: FiniteFloat = 0.0
    """When something was told of last that may come and go."""


NOTHING = Reported()


@dataclass
class StreamMemory:
    __pydantic_config__ = ConfigDict(extra="allow")  # for what capabilities have learned

    decided_at: FiniteFloat = 0.0
    """When the tick began in which a policy last decided, seconds since the epoch."""
    told: Reported = NOTHING
    """What the last event said."""
    shown: str = ""
    """The headline of the last materialization, which Overview shows, and whether a status was."""
    advanced: bool = False
    """Whether records were processed since then."""
    epoch: int | None = None
    """The epoch of the newest known driver; None: no driver is known, or it was stopped."""
    checks: dict[str, str] = field(default_factory=dict)
    """The stored outcome of each health check: `passed`, or `failed` with the finding's mark."""
    evaluated: Evaluated = NEVER
    """The last evaluation that a policy could decide on."""
    asked: Asked = NOTHING_ASKED
    """The executors that its policy has asked for within its window before some are removed."""
    learned: Mapping[str, float] = field(default_factory=dict)
    """What capabilities have learned of it, each under keys of its own."""
    granted: tuple[FiniteFloat, int] | None = None
    """When a budget last gave it executors, seconds since the epoch, and its target then."""
    usage: Usage = field(default_factory=Usage)
    """What its executors have cost today."""
    spilled_at: int = 0
    """When the last minute was that an event of the fleet carries in the place of the cursor; 0:
    none, or none since the last event."""
    pending: dict[str, Any] = field(default_factory=dict)
    """The minutes since the last event that no event of the fleet carries, packed."""
    spilled: Sequence[Mapping[str, Any]] = field(default=(), repr=False, compare=False)
    """The minutes that one does carry, as they have been read back. The cursor has them not."""

    @property
    def minutes(self) -> list[Minute]:
        """The minutes since the last event."""
        pending = unpack(self.pending) if self.pending else []
        if not self.spilled:
            return pending
        parts = [*map(unpack, self.spilled), pending]
        told_at, until = self.told.at, self.last_at if self.is_set_back else 0
        return [each for each in merged(parts) if each.at > told_at or each.at <= until]

    @minutes.setter
    def minutes(self, minutes: Sequence[Minute]) -> None:
        self.pending, self.spilled, self.spilled_at = pack(minutes) if minutes else {}, (), 0

    def add(self, minute: Minute) -> None:
        """Remember one minute more since the last event."""
        self.pending = added(self.pending, minute)

    def go_on(self, seen: "StreamMemory") -> None:
        """Add what has been seen since by who did not know this."""
        for minute in seen.minutes:
            if minute.at > self.last_at:
                self.usage = self.usage.after(minute, self.last_at)
                self.add(minute)
        if seen.evaluated.at > self.evaluated.at:
            self.evaluated, self.asked = seen.evaluated, seen.asked
        self.decided_at = max(self.decided_at, seen.decided_at)
        self.learned = {**self.learned, **seen.learned}
        self.granted = seen.granted or self.granted
        self.epoch, self.advanced = seen.epoch, self.advanced or seen.advanced

    def forget_before(self, at: float) -> None:
        """Forget the pending minutes up to then, seconds since the epoch."""
        left = [minute for minute in unpack(self.pending) if minute.at > at]
        self.pending = pack(left) if left else {}

    @property
    def is_set_back(self) -> bool:
        """Whether the clock was set back since the last event."""
        return self.last_at < int(self.told.at)

    @property
    def last_at(self) -> int:
        """When it was last seen, seconds since the epoch; 0: never."""
        if self.pending:
            return sum(self.pending["at"])
        return self.spilled_at or int(self.told.at)


@dataclass
class Memory:
    streams: dict[str, StreamMemory] = field(default_factory=dict)
    fleet: FleetMemory = field(default_factory=FleetMemory)

    spills: list[int] = field(default_factory=list)
    """When the fleet was told of minutes that no event of their stream tells of yet, seconds since
    the epoch."""
    left_out: list[str] = field(default_factory=list)
    """What the cursor has no room for, in words."""

    @classmethod
    def load(cls, cursor: str | None) -> "Memory":
        """Read a cursor. One that can't be read is a new beginning, not an error: a sensor that
        fails on its own cursor would never tick again."""
        try:
            read = _MEMORY.validate_json(cursors.read(cursor or ""), strict=True)
            for memory in read.streams.values():
                memory.spilled = ()
                memory.pending = _readable(memory.pending)
                numbers, texts = _beside(memory).items(), _beside(memory.told).items()
                memory.learned = {
                    key: n for key, n in numbers if isinstance(n, float) and math.isfinite(n)
                }
                news = {key: text for key, text in texts if isinstance(text, str) and text}
                memory.told = replace(memory.told, news=news)
        except ValueError:  # pydantic's is one
            return cls()
        return read

    def of(self, stream: str) -> StreamMemory:
        known = self.streams.get(stream)
        if known is None:
            known = self.streams[stream] = StreamMemory()
        return known

    def dump(self, keep: Collection[str], spill: Callable[[], bool] = lambda: False) -> str:
        """The cursor. Streams that are not in `keep` any more are forgotten.

        Args:
            spill: takes minutes out of this memory where the cursor has no room for them; False:
                there are none, or nobody takes them.
        """
        self.streams = {name: known for name, known in self.streams.items() if name in keep}
        problems = self.fleet.problems
        self.fleet.problems = {
            name: found for name, found in problems.items() if found and name in keep
        }
        self.left_out = []
        text = cursors.whole(cursor := self._cursor())
        for less in (self._leave_out_others, spill):
            if text is None and less():
                text = cursors.whole(cursor := self._cursor())
        if text is None:
            text, self.left_out = cursors.reduced(cursor)
        return text

    def _leave_out_others(self) -> bool:
        """Leave out the problems of streams that another sensor evaluates: they must not cost what
        only this one remembers. Returns whether there are any."""
        problems = self.fleet.problems
        self.fleet.problems = {n: found for n, found in problems.items() if n in self.streams}
        if len(self.fleet.problems) == len(problems):
            return False
        self.left_out.append("the problems of streams whose sensors are silent")
        return True

    def _cursor(self) -> cursors.Cursor:
        # Not `asdict`: it would copy each value of each minute.
        kept = {
            name: _flat(memory, "learned", "spilled")
            | {"told": _flat(memory.told, "news")}
            | {"evaluated": vars(memory.evaluated), "usage": vars(memory.usage)}
            | {"asked": vars(memory.asked)}
            for name, memory in self.streams.items()
        }
        left_out = {cursors.LEFT_OUT: [*self.left_out]} if self.left_out else {}
        return {
            **{"streams": kept, "fleet": asdict(self.fleet), "spills": self.spills},
            **left_out,
        }


def _readable(pending: dict[str, Any]) -> dict[str, Any]:
    """The minutes of one stream, or none: what can't be read of one must not cost all others what
    is remembered of them."""
    try:
        if pending:
            check(pending)
    except (ValueError, OverflowError):
        return {}
    return pending


def _flat(one: StreamMemory | Reported, of_capabilities: str, *but: str) -> dict[str, Any]:
    """The fields for JSON, and beside them what capabilities keep there, under their own keys."""
    fields = {name: getattr(one, name) for name in one.__dataclass_fields__ if name not in but}
    beside: dict[str, Any] = fields.pop(of_capabilities)
    return fields | beside


def _beside(one: StreamMemory | Reported) -> dict[str, Any]:
    """What a cursor has beside the fields: of capabilities, or of another release."""
    return {key: value for key, value in vars(one).items() if key not in one.__dataclass_fields__}


_MEMORY = TypeAdapter(Memory)
