"""The two kinds of streams that a user declares. Pure."""

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from dagster_sparkscale.declare.declaration import Whole
from dagster_sparkscale.declare.fields import is_a
from dagster_sparkscale.declare.limit_checks import check_rates, check_streaming
from dagster_sparkscale.declare.limits import LimitsOfSources, StreamingLimits
from dagster_sparkscale.declare.receivers import (
    ReceiverPolicy,
    check_receivers,
    fitting_executors,
    least_executors,
)
from dagster_sparkscale.declare.state import State
from dagster_sparkscale.declare.stream import Stream


class StructuredStream(Stream):
    """A Structured Streaming application with any number of queries."""

    kind: Literal["structured"] = "structured"

    limits: LimitsOfSources = Field(default_factory=dict)
    """What a query may read of a source for a batch, by the name of the source: the program takes
    it by `.options(**stream_options("name"))`, when the query starts."""

    @classmethod
    def _elsewhere(cls, name: str) -> str | None:
        """Receivers are declared of a DStream."""
        return "only a DStream has it" if name in DStream.model_fields else None

    @property
    def _has_limits(self) -> bool:
        return bool(self.limits)


class DStream(Stream):
    """A DStreams application, with or without receivers."""

    kind: Literal["dstream"] = "dstream"

    receivers: Annotated[Whole, Field(ge=0)] = 0
    """How many receivers the program starts. Each takes one core for good."""

    receiver_policy: Annotated[
        ReceiverPolicy | None,
        is_a(ReceiverPolicy, "a ReceiverPolicy, such as ReceiverPolicy()"),
    ] = None
    """Where they may be, and how many there are. None: no executor with receivers is removed, and
    they stay where Spark has put them."""

    limits: Annotated[
        StreamingLimits | None,
        is_a(StreamingLimits, "a StreamingLimits, such as StreamingLimits(max_rate=10_000)"),
    ] = None
    """What its input may take, in Spark's own settings, which are read when it starts."""

    @model_validator(mode="after")
    def _streaming_limits_agree(self) -> Self:
        if self.limits is not None:
            check_streaming(self.limits, self.backpressure, self.spark_conf, self.receivers)
            check_rates("limits", self.limits.rates, self.batch_interval)
        return self

    @field_validator("state")
    @classmethod
    def _has_no_state(cls, value: State | None) -> None:
        if value is not None:
            raise ValueError(
                "drop it; only the state of Structured Streaming can be repartitioned, by a "
                "StructuredStream"
            )

    @property
    def _receivers(self) -> int:
        return self.receivers

    @property
    def _has_limits(self) -> bool:
        return self.limits is not None

    def _least_executors(self, receivers: int) -> int:
        return least_executors(self.receiver_policy, receivers, self.tasks_at_a_time)

    @property
    def _why_so_many(self) -> str:
        if not self.receivers:
            return ""
        fitting = fitting_executors(self.receivers, self.tasks_at_a_time)
        if self._least_executors(self.receivers) == fitting:
            return f": {self.receivers} receiver(s) and a task of a batch have to fit on them"
        return (
            f": one for each of {self.receivers} receivers; with receiver_policy.removal = "
            f"'fitting' {fitting} would do"
        )

    @model_validator(mode="after")
    def _receivers_leave_a_core(self) -> Self:
        minimum, each = self.bounds.minimum, self.tasks_at_a_time
        if self.receivers and minimum * each <= self.receivers:
            cores = f"{self.executor_cores} core(s)"
            if each != self.executor_cores:
                cores += f", which run {each} task(s)"
            raise ValueError(
                f"receivers = {self.receivers}: would take every core of the minimum of {minimum} "
                f"executor(s) of {cores}, and no batch could run; raise "
                f"autoscale.min_executors to {self._least_executors(self.receivers)}, or "
                "executor_cores"
            )
        if self.receiver_policy is not None:
            check_receivers(
                self.receiver_policy,
                receivers=self.receivers,
                bounds=self.bounds,
                executor_cores=self.executor_cores,
                tasks_at_a_time=each,
                checkpoint=self.checkpoint_location,
                spark_conf=self.spark_conf,
            )
        return self
