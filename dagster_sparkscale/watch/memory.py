"""What the sensor remembers from one tick to the next: its cursor, with types.

Nothing here is needed for safety. A lost cursor costs one repeated check evaluation a stream, one
early materialization, and perhaps the look at a batch.
"""

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass, field, replace

from pydantic import FiniteFloat, TypeAdapter, ValidationError

from dagster_sparkscale.watch.coverage import NEVER, Evaluated
from dagster_sparkscale.watch.fleet_memory import FleetMemory


@dataclass
class StreamMemory:
    decided_at: FiniteFloat = 0.0
    """When the tick began in which a policy last decided, seconds since the epoch."""
    materialized_at: FiniteFloat = 0.0
    """When a materialization last said that the stream's data moved on."""
    advanced: bool = False
    """Whether records were processed since then."""
    checks: dict[str, str] = field(default_factory=dict)
    """The stored outcome of each health check: `passed`, or `failed` with the finding's mark."""
    evaluated: Evaluated = NEVER
    """The last evaluation that a policy could decide on."""


@dataclass
class Memory:
    streams: dict[str, StreamMemory] = field(default_factory=dict)
    fleet: FleetMemory = field(default_factory=FleetMemory)

    @classmethod
    def load(cls, cursor: str | None) -> "Memory":
        """Read a cursor. One that can't be read is a new beginning, not an error: a sensor that
        fails on its own cursor would never tick again."""
        try:
            return _MEMORY.validate_json(cursor or "", strict=True)
        except ValidationError:
            return cls()

    def of(self, stream: str) -> StreamMemory:
        return self.streams.setdefault(stream, StreamMemory())

    def dump(self, keep: Collection[str]) -> str:
        """The cursor, without streams that are not in `keep` any more."""
        kept = {name: memory for name, memory in self.streams.items() if name in keep}
        return json.dumps(asdict(replace(self, streams=kept)), separators=(",", ":"))


_MEMORY = TypeAdapter(Memory)
