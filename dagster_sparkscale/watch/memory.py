"""What the sensor remembers from one tick to the next: its cursor, with types.

Nothing here is needed for safety. A lost cursor costs one repeated check evaluation a stream and
one early materialization.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields


@dataclass
class StreamMemory:
    decided_at: float = 0.0
    """When a policy last decided, seconds since the epoch."""
    materialized_at: float = 0.0
    """When a materialization last said that the stream's data moved on."""
    advanced: bool = False
    """Whether records were processed since then."""
    checks: dict[str, str] = field(default_factory=dict)
    """The stored outcome of each health check: `passed`, or `failed` with the finding's mark."""


@dataclass
class Memory:
    streams: dict[str, StreamMemory] = field(default_factory=dict)

    @classmethod
    def load(cls, cursor: str | None) -> "Memory":
        """Read a cursor. One that can't be read is a new beginning, not an error: a sensor that
        fails on its own cursor would never tick again."""
        try:
            data = json.loads(cursor or "")
            return cls({name: _stream(item) for name, item in data.items()})
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            return cls()

    def of(self, stream: str) -> StreamMemory:
        return self.streams.setdefault(stream, StreamMemory())

    def dump(self, keep: Mapping[str, object]) -> str:
        """The cursor, without streams that are not in `keep` any more."""
        return json.dumps(
            {name: asdict(memory) for name, memory in self.streams.items() if name in keep},
            separators=(",", ":"),
        )


def _stream(item: Mapping[str, object]) -> StreamMemory:
    memory = StreamMemory()
    for name in (f.name for f in fields(StreamMemory)):
        if name in item:
            setattr(memory, name, _like(getattr(memory, name), item[name]))
    return memory


def _like(default: object, value: object) -> object:
    """`value`, if the sensor can work with it in the place of `default`."""
    if isinstance(default, bool):
        right = isinstance(value, bool)
    elif isinstance(default, float):
        right = type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]
    else:
        right = isinstance(value, dict) and all(isinstance(v, str) for v in value.values())
    if not right:
        raise TypeError
    return value
