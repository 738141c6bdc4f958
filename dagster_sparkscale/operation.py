"""What an operation is: its config, its run and its report, and the streams that it may be of.

Its job is made in `operations.py`, which has all names of this module as well.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import Any, Generic, TypeVar

import dagster as dg
from pydantic import Field, field_validator

from dagster_sparkscale.clusters.base import ClusterManager
from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.declare.budget import Budget
from dagster_sparkscale.declare.decisions import Decision
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.markdown import ARROW, shortened
from dagster_sparkscale.names import (
    CLUSTER_TAG,
    EPOCH_TAG,
    OPERATION_TAG,
    STREAM_TAG,
    autoscaler,
)

STALE_AFTER = 180.0
"""Seconds after which the run of a decision is too late: what it was decided on is not so any more,
and the evaluations since have decided anew."""
_BY_HAND = "by hand"
_SHOWN = 20
"""Streams that a refused value is shown as choices, at most."""
IN_SHORT = 80
"""Characters of what an operation came to in the list of runs, at most."""


class Streams:
    """The streams of one cluster, by name, and how Dagster knows them."""

    def __init__(
        self,
        streams: Sequence[Stream],
        cluster_key: str,
        run_tags: Mapping[str, Any] | None = None,
        budget: Budget | None = None,
        shards: int = 1,
    ) -> None:
        self.cluster_key = cluster_key
        self.budget = budget
        """The cores that they may have together; None: as many as the cluster has."""
        self.run_tags = run_tags or {}
        """Tags of the runs of its jobs, besides its own."""
        self.by_name: Mapping[str, Stream] = {stream.name: stream for stream in streams}
        self.Name = choice(*self.by_name)
        self.shards = shards
        """The sensors that evaluate them."""

    def __iter__(self) -> Iterator[Stream]:
        return iter(self.by_name.values())

    @property
    def autoscalers(self) -> list[str]:
        """The names of the sensors that evaluate them, the leading one first."""
        return [autoscaler(self.cluster_key, shard) for shard in range(self.shards)]

    def cluster(self, context: Any) -> ClusterManager:
        """The cluster manager among the resources of a run, sensor or check."""
        cluster: ClusterManager = getattr(context.resources, self.cluster_key)
        return cluster

    def owner(self, location: str | None) -> str:
        """The owner of the streams, which each start remembers.

        Args:
            location: the name of the code location; None where a run or tick has none: then the
                owner is empty.
        """
        return owner_of(location, self.cluster_key)

    def asset_key(self, context: Any, stream: str) -> dg.AssetKey:
        """The key of a stream's asset, also of one that is not declared any more."""
        if stream in self.by_name:
            return asset_key(self.by_name[stream])
        record = self.cluster(context).store().read(stream)
        return dg.AssetKey(list(record.asset) if record and record.asset else [stream])

    def tags(self, stream: str, operation: str, epoch: int | None = None) -> dict[str, str]:
        """Tags of a run of `operation` on `stream`: what the UI filters by, and how the sensor
        sees that an operation is in flight."""
        tags = {STREAM_TAG: stream, CLUSTER_TAG: self.cluster_key, OPERATION_TAG: operation}
        if epoch is not None:
            tags[EPOCH_TAG] = str(epoch)
        return tags


@cache
def choice(*names: str) -> type[Enum]:
    """An enum of these names.

    It is called by them, for Dagster names nothing else where it refuses a value: "not in enum type
    [clicks, orders] got clikcs". Dagster knows config types by their names, all over the process:
    two enums of one name would refuse each other's values, so of the same names there is but one.
    """
    shown, more = ", ".join(names[:_SHOWN]), len(names) - _SHOWN
    if more > 0:
        shown += f" and {more} more, {zlib.crc32(repr(names).encode()):08x}"
    return Enum(f"[{shown}]", {name: name for name in names})  # type: ignore[return-value]


def owner_of(location: str | None, cluster_key: str) -> str:
    """The owner of streams: code location and cluster. Empty where the location is None."""
    return f"{location}/{cluster_key}" if location else ""


def asset_key(stream: Stream) -> dg.AssetKey:
    return dg.AssetKey([*stream.key_prefix, stream.name])


class OperationConfig(dg.Config):
    """The config of every operation. The job adds the stream, with the names of the declared ones
    as its type: the launchpad offers them and refuses any other before a run starts."""

    reason: str = Field(default=_BY_HAND, description="Why; shown on the run's page.")
    decided_at: float | None = Field(
        default=None,
        description="When it was decided, seconds since the epoch: a run that starts more than "
        f"{STALE_AFTER:.0f} s later changes nothing. Left out: it is never too late.",
    )

    @property
    def takes_anothers(self) -> bool:
        """Whether it is carried out although another code location has started the stream."""
        return False

    @field_validator("reason")
    @classmethod
    def _never_empty(cls, value: str) -> str:
        return value.strip() or _BY_HAND


class DecidedConfig(OperationConfig):
    """The config of an operation that may be decided about one driver."""

    epoch: int | None = Field(
        default=None,
        description="The driver this was decided for; if another runs by now, nothing is done.",
    )


@dataclass(frozen=True)
class Report:
    """What an operation came to."""

    line: str
    story: Mapping[str, Any] = field(default_factory=dict)
    """The report's values, in types of JSON; None: not measured."""
    failed: bool = False
    """Whether it is not as it was to be: the run tells its story, and fails with the line."""
    reading: bool = False
    """Whether nothing was to be changed: it is not among what happened to the stream."""
    notes: Sequence[str] | None = None
    """What else a person should know: a warning each, and an entry of the story. None: it has no
    such entry."""
    outcome: str | None = None
    """What the run's row says it came to, where that is shorter than the line; None: the line."""

    def story_of(self, config: OperationConfig) -> dict[str, Any]:
        """The story with what that of each operation has."""
        notes = {} if self.notes is None else {"notes": joined(self.notes)}
        # The tag of the run says so too, but an event may be read without its run.
        reading = {"reading": True} if self.reading else {}
        return {"reason": config.reason, **self.story, **notes, **reading}


def joined(notes: Sequence[str]) -> str:
    """Notes as one entry of a story."""
    return "; ".join(notes) or "none"


def in_short(line: str) -> str:
    """What an operation came to, or why it was refused, as the list of runs has room for it."""
    return shortened(line.replace("->", ARROW), IN_SHORT)


def rounded(value: float | None) -> float | None:
    """A figure of a story, as the run's page shows it; None: it was not measured."""
    return None if value is None else round(value, 3)


C = TypeVar("C", bound=OperationConfig)
D = TypeVar("D", bound=Decision)


@dataclass(frozen=True)
class Run(Generic[C]):
    """The run of an operation on one stream."""

    context: dg.OpExecutionContext
    streams: Streams
    name: str
    """The stream's name, also of one that is not declared any more."""
    config: C
    requester: Requester

    @property
    def stream(self) -> Stream:
        """The stream as it is declared."""
        return self.streams.by_name[self.name]

    @property
    def cluster(self) -> ClusterManager:
        return self.streams.cluster(self.context)


@dataclass(frozen=True)
class Operation(Generic[C, D]):
    """One kind of change to a stream, carried out by a tracked run."""

    name: str
    """What decisions, jobs and tags call it."""
    description: str
    config_type: type[C]
    carry_out: Callable[[Run[C]], Report]
    expires: bool = True
    """Whether the run of a decision that starts too late changes nothing. False: what it was
    decided on is looked at again under the lease."""
    config_for: Callable[[D, Stream, int | None], C] | None = None
    """Makes the config of the run of a decision about the stream's driver of an epoch.
    None: nothing decides it, people do."""
    of_one_driver: bool = False
    """Whether a driver that was started later than it was asked for has no need of it."""
    recovers: bool = False
    """Whether it is carried out by itself though the stream is frozen or advised only."""
    lease_wait: float | None = None
    """Seconds to wait for another operation to end; None: `LEASE_WAIT`."""
