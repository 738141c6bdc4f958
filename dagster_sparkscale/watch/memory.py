"""What the sensor remembers from one tick to the next: its cursor, with types.

Nothing here is needed for safety. A lost cursor costs a stream the minutes that Dagster had not
been told of, one repeated check evaluation, one early event, and perhaps the look at a batch. Pure.
"""

import json
import math
import zlib
from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pydantic import ConfigDict, FiniteFloat, TypeAdapter

from dagster_sparkscale.autoscale.scale_down import NOTHING_ASKED, Asked
from dagster_sparkscale.observe.minutes import Minute, added, check, pack, unpack
from dagster_sparkscale.observe.usage import Usage
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
    pending: dict[str, Any] = field(default_factory=dict)
    """The minutes since the last event, packed."""

    @property
    def minutes(self) -> list[Minute]:
        """The minutes since the last event."""
        return unpack(self.pending) if self.pending else []

    @minutes.setter
    def minutes(self, minutes: Sequence[Minute]) -> None:
        self.pending = pack(minutes) if minutes else {}

    def add(self, minute: Minute) -> None:
        """Remember one minute more since the last event."""
        self.pending = added(self.pending, minute)

    @property
    def last_at(self) -> int:
        """When it was last seen, seconds since the epoch; 0: never."""
        return sum(self.pending["at"]) if self.pending else int(self.told.at)


@dataclass
class Memory:
    streams: dict[str, StreamMemory] = field(default_factory=dict)
    fleet: FleetMemory = field(default_factory=FleetMemory)

    @classmethod
    def load(cls, cursor: str | None) -> "Memory":
        """Read a cursor. One that can't be read is a new beginning, not an error: a sensor that
        fails on its own cursor would never tick again."""
        try:
            text = zlib.decompress(b64decode(cursor or "", validate=True))
            read = _MEMORY.validate_json(text, strict=True)
            for memory in read.streams.values():
                if memory.pending:
                    check(memory.pending)
                numbers, texts = _beside(memory).items(), _beside(memory.told).items()
                memory.learned = {
                    key: n for key, n in numbers if isinstance(n, float) and math.isfinite(n)
                }
                news = {key: text for key, text in texts if isinstance(text, str) and text}
                memory.told = replace(memory.told, news=news)
        except (ValueError, zlib.error):  # pydantic's is a ValueError
            return cls()
        return read

    def of(self, stream: str) -> StreamMemory:
        return self.streams.setdefault(stream, StreamMemory())

    def dump(self, keep: Collection[str]) -> str:
        """The cursor, without streams that are not in `keep` any more. Compressed: Dagster stores
        it with each tick."""
        # Not `asdict`: it would copy each value of each minute.
        kept = {
            name: _flat(memory, "learned")
            | {"told": _flat(memory.told, "news")}
            | {"evaluated": vars(memory.evaluated), "usage": vars(memory.usage)}
            | {"asked": vars(memory.asked)}
            for name, memory in self.streams.items()
            if name in keep
        }
        cursor = {"streams": kept, "fleet": asdict(self.fleet)}
        # Half a character, as a broken log may have it, must not make it unreadable.
        text = json.dumps(cursor, separators=(",", ":"), ensure_ascii=False)
        return b64encode(zlib.compress(text.encode(errors="replace"), level=1)).decode()


def _flat(one: StreamMemory | Reported, of_capabilities: str) -> dict[str, Any]:
    """The fields for JSON, and beside them what capabilities keep there, under their own keys."""
    fields = {name: getattr(one, name) for name in one.__dataclass_fields__}
    beside: dict[str, Any] = fields.pop(of_capabilities)
    return fields | beside


def _beside(one: StreamMemory | Reported) -> dict[str, Any]:
    """What a cursor has beside the fields: of capabilities, or of another release."""
    return {key: value for key, value in vars(one).items() if key not in one.__dataclass_fields__}


_MEMORY = TypeAdapter(Memory)
