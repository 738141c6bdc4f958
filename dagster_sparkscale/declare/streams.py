"""The two kinds of streams that a user declares. Pure."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from dagster_sparkscale.declare.backpressure import BackpressurePolicy
from dagster_sparkscale.declare.declaration import Whole
from dagster_sparkscale.declare.fields import is_a
from dagster_sparkscale.declare.limits import DeclaredLimits, LimitsOfSources, StreamingLimits
from dagster_sparkscale.declare.lineage import Lineage
from dagster_sparkscale.declare.part import Part
from dagster_sparkscale.declare.realtime import RealTime
from dagster_sparkscale.declare.receivers import DeclaredReceivers, ReceiverPolicy
from dagster_sparkscale.declare.state import State
from dagster_sparkscale.declare.stream import Stream

KINDS_OF_PARTS: tuple[type[Part], ...] = (
    State,
    BackpressurePolicy,
    StreamingLimits,
    DeclaredReceivers,
    DeclaredLimits,
    RealTime,
    Lineage,
)


class StructuredStream(Stream):
    """A Structured Streaming application with any number of queries."""

    kind: Literal["structured"] = "structured"
    kinds_of_parts: ClassVar[tuple[type[Part], ...]] = KINDS_OF_PARTS

    limits: LimitsOfSources = Field(default_factory=dict)
    """What a query may read of a source for a batch, by the name of the source: the program takes
    it by `.options(**stream_options("name"))`, when the query starts."""

    realtime: Annotated[
        RealTime | None, is_a(RealTime, "a RealTime, such as RealTime(slots=6)")
    ] = None
    """The task slots that its queries in real-time mode need at once. None: it has no such query,
    or Spark is to say, by refusing to run it, how many they need."""

    @classmethod
    def _elsewhere(cls, name: str) -> str | None:
        """Receivers are declared of a DStream."""
        return "only a DStream has it" if name in DStream.model_fields else None

    @property
    def parts(self) -> tuple[Part, ...]:
        limits = [DeclaredLimits(self.limits)] if self.limits else []
        return (*super().parts, *limits, *([self.realtime] if self.realtime is not None else []))


class DStream(Stream):
    """A DStreams application, with or without receivers."""

    kind: Literal["dstream"] = "dstream"
    kinds_of_parts: ClassVar[tuple[type[Part], ...]] = KINDS_OF_PARTS

    receivers: Annotated[Whole, Field(ge=0)] = 0
    """How many receivers the program starts. Each takes one core for good."""

    receiver_policy: Annotated[
        ReceiverPolicy | None, is_a(ReceiverPolicy, "a ReceiverPolicy, such as ReceiverPolicy()")
    ] = None
    """The policy of their executors and their number. None: no executor with receivers is removed,
    and they stay where Spark has put them."""

    limits: Annotated[
        StreamingLimits | None,
        is_a(StreamingLimits, "a StreamingLimits, such as StreamingLimits(max_rate=10_000)"),
    ] = None
    """What its input may take, in Spark's own settings, which are read when it starts."""

    @field_validator("state")
    @classmethod
    def _has_no_state(cls, value: State | None) -> None:
        if value is not None:
            raise ValueError(
                "drop it; only the state of Structured Streaming can be repartitioned, by a "
                "StructuredStream"
            )

    @property
    def parts(self) -> tuple[Part, ...]:
        limits = () if self.limits is None else (self.limits,)
        return (DeclaredReceivers(self.receivers, self.receiver_policy), *limits, *super().parts)
