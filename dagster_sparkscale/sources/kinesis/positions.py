"""Positions of reading in each shard, and the offset that Spark's checkpoint keeps. Pure.

A position is never a count: Kinesis has none. It is a sequence number, or the moment from which
to read a shard of which nothing has been read yet.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

VERSION = 1
"""The version of the JSON in the checkpoint. A newer one is refused: it may mean something else."""


class Kind(StrEnum):
    """How a position is meant. The values are part of the checkpoint's format."""

    TRIM = "TRIM"
    """The oldest record the shard still has."""
    TIME = "TS"
    """The first record that arrived at `time_ms` or later."""
    AT = "AT"
    """The record `sequence` is the next one to be read."""
    AFTER = "AFTER"
    """The record `sequence` is the last one that was read."""
    END = "END"
    """The shard is closed and has been read to its end."""


@dataclass(frozen=True, slots=True)
class Position:
    kind: Kind
    sequence: str | None = None
    time_ms: int | None = None
    """What the shard took in before this moment has been read, milliseconds since the epoch of
    the service's clock; for TIME, what arrived before it is not wanted."""

    def to_json(self) -> dict[str, Any]:
        json: dict[str, Any] = {"k": str(self.kind)}
        if self.sequence is not None:
            json["s"] = self.sequence
        if self.time_ms is not None:
            json["t"] = self.time_ms
        return json

    @staticmethod
    def from_json(json: Mapping[str, Any]) -> "Position":
        return Position(Kind(json["k"]), json.get("s"), json.get("t"))


END = Position(Kind.END)


@dataclass(frozen=True, slots=True)
class Offset:
    """A point of the whole stream: what lies between two of them is a batch."""

    stream: str
    shards: Mapping[str, Position] = field(default_factory=dict)
    """Positions by shard id. A shard that is missing has not been begun."""
    from_ms: int | None = None
    """Records that arrived before this are not wanted, in shards yet to be begun either."""
    lost: int = 0
    """How many times data was gone before it was read, and reading went on."""

    def to_json(self) -> dict[str, Any]:
        json: dict[str, Any] = {
            "v": VERSION,
            "stream": self.stream,
            "shards": {shard: self.shards[shard].to_json() for shard in sorted(self.shards)},
        }
        if self.from_ms is not None:
            json["from"] = self.from_ms
        if self.lost:
            json["lost"] = self.lost
        return json

    def first(self, now_ms: int | None = None) -> Position:
        """The position at which a new shard begins."""
        if self.from_ms is not None:
            return Position(Kind.TIME, time_ms=self.from_ms)
        return Position(Kind.TRIM, time_ms=now_ms)

    @staticmethod
    def from_json(json: Mapping[str, Any], stream: str) -> "Offset":
        """
        Raises:
            ValueError: the offset is of another stream, or of a newer version of this source.
        """
        version = json.get("v")
        if version != VERSION:
            raise ValueError(
                f"the checkpoint has offsets of version {version!r}; this source reads version "
                f"{VERSION}. Use the release that wrote it, or another checkpoint location"
            )
        if json["stream"] != stream:
            raise ValueError(
                f"the checkpoint is of the stream {json['stream']!r}, and streamName is "
                f"{stream!r}: give the query of another stream a checkpoint location of its own"
            )
        shards = {shard: Position.from_json(each) for shard, each in json["shards"].items()}
        return Offset(stream, shards, json.get("from"), json.get("lost", 0))


def before(sequence: str, other: str) -> bool:
    """Whether a record comes before another of the same shard.

    Sequence numbers are decimals of up to 128 digits that grow within a shard. Those of records
    may be compared; a shard's EndingSequenceNumber is a made-up one at some emulators.
    """
    return int(sequence) < int(other)
