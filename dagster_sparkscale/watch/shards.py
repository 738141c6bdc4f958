"""The division of a cluster's streams between its sensors. Pure."""

from collections.abc import Iterable
from hashlib import blake2b


def shard_of(stream: str, shards: int) -> int:
    """The shard of a stream, from 0, by its name alone.

    Each shard draws a number for the stream, and the highest wins (rendezvous hashing: Thaler and
    Ravishankar, "Using name-based mappings to increase hit rates", 1998). So of n shards each has
    about an n-th of the streams, a stream that comes or goes moves no other, and one shard more
    takes over an equal part of each and moves nothing else.
    """
    return max(range(shards), key=lambda shard: _draw(stream, shard))


def spread(streams: Iterable[str], shards: int) -> list[list[str]]:
    """The streams of each shard, in the order given."""
    parts: list[list[str]] = [[] for _ in range(shards)]
    for stream in streams:
        parts[shard_of(stream, shards)].append(stream)
    return parts


def _draw(stream: str, shard: int) -> bytes:
    return blake2b(f"{shard}/{stream}".encode(), digest_size=8).digest()
