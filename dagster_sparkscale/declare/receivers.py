"""What a user declares of a stream's receivers: where they may be, and how many of them. Pure.

The rules are those of the design document of SPARK-12133: version 1 and 2 say which executors may
be removed, version 2 how receivers are spread, version 3 that their number follows the input.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, StrictBool, model_validator

from dagster_sparkscale.declare.backpressure import Rate
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.declaration import Count, Declaration, Number, Seconds
from dagster_sparkscale.declare.fields import is_a

WRITE_AHEAD_LOG = "spark.streaming.receiver.writeAheadLog.enable"
"""Spark setting: whether what receivers take is kept in the checkpoint until it is processed."""


class ReceiverCount(Declaration):
    """Has the number of receivers follow the input rate (SPARK-12133, version 3).

    A change is a graceful restart of the stream, with a new checkpoint folder: the program takes
    its number by `receiver_count`, and its folder by `receiver_checkpoint`. It is for programs
    whose whole input comes by receivers, of a source that divides it among them.

    With u the records per second that the stream takes, divided by what its receivers can take:
    one more at or above `scale_up_ratio`; one less where u of those that would stay is at or below
    `scale_down_ratio`. In between: hold.
    """

    maximum: Count
    """Most receivers."""

    minimum: Count = 1
    """Fewest receivers."""

    capacity: Rate | None = None
    """Records per second that one receiver can take. None: learned while the receivers stand at
    limits declared for them, or fall behind a source that tells, with executors that keep up."""

    scale_up_ratio: Annotated[Number, Field(gt=0, le=1)] = 0.9
    scale_down_ratio: Annotated[Number, Field(gt=0)] = 0.6

    step: Count = 1
    """Most receivers that are added or taken away at a time."""

    cooldown: Seconds = 900.0
    """Seconds that a driver runs before the number is changed: each change is a restart."""

    drain: Annotated[Seconds, Field(le=86400.0)] = 300.0
    """Seconds that the driver has to process what its receivers have received, before the number is
    changed. If it needs longer, nothing is changed."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.maximum < self.minimum:
            raise ValueError(f"maximum = {self.maximum}: must be at least minimum = {self.minimum}")
        if self.scale_up_ratio <= self.scale_down_ratio:
            raise ValueError(
                f"scale_up_ratio = {self.scale_up_ratio:g}: must be above "
                f"scale_down_ratio = {self.scale_down_ratio:g}"
            )
        return self

    def clamp(self, receivers: int) -> int:
        """`receivers` moved into the bounds."""
        return max(self.minimum, min(receivers, self.maximum))


class ReceiverPolicy(Declaration):
    """Where the receivers of a stream may be, and how many there are (SPARK-12133)."""

    removal: Literal["never", "fitting"] = "never"
    """`never`: no executor with receivers is removed (version 1). `fitting`: it may be where the
    cores that stay run all receivers and at least one task beside them; its receivers are moved to
    other executors first (version 2)."""

    rebalance: StrictBool = True
    """Whether a receiver is moved from an executor that has one more than the average, or still
    more, to the one with the fewest."""

    count: Annotated[
        ReceiverCount | None,
        is_a(ReceiverCount, "a ReceiverCount, such as ReceiverCount(maximum=4)"),
    ] = None
    """How the number of receivers follows the input. None: as many as are declared."""


def least_executors(policy: ReceiverPolicy | None, receivers: int, tasks_at_a_time: int) -> int:
    """Fewest executors for so many receivers, where no minimum is declared.

    As Spark's ExecutorAllocationManager, one for each receiver, with one more where those would
    have no core left for a batch; with `fitting`, as many as run all receivers and one task more.

    Args:
        tasks_at_a_time: of one executor.
    """
    fitting = fitting_executors(receivers, tasks_at_a_time)
    if policy is not None and policy.removal == "fitting":
        return fitting
    return max(receivers, fitting)


def fitting_executors(receivers: int, tasks_at_a_time: int) -> int:
    """Executors on which so many receivers leave the place of one task free."""
    return receivers // tasks_at_a_time + 1


def check_receivers(
    policy: ReceiverPolicy,
    *,
    receivers: int,
    bounds: Bounds,
    executor_cores: int,
    tasks_at_a_time: int,
    checkpoint: str | None,
    spark_conf: Mapping[str, str],
) -> None:
    """Refuse a policy of receivers that has no effect, or can't work.

    Args:
        receivers: that are declared.
        bounds: of executors.
        checkpoint: where it is; None: none is declared.

    Raises:
        ValueError: it is one.
    """
    if not receivers:
        raise ValueError(
            "receiver_policy: drop it, or say how many receivers there are; the stream has none"
        )
    count = policy.count
    if count is None:
        return
    if count.clamp(receivers) != receivers:
        raise ValueError(
            f"receivers = {receivers}: must be within receiver_policy.count, {count.minimum} to "
            f"{count.maximum}; it is what the stream begins with"
        )
    if checkpoint is None:
        raise ValueError(
            "checkpoint_location = None: must be given with receiver_policy.count; what was "
            "received and not processed is kept there while the number is changed"
        )
    if spark_conf.get(WRITE_AHEAD_LOG, "").strip().lower() != "true":
        given = spark_conf.get(WRITE_AHEAD_LOG)
        said = "missing" if given is None else f"{given!r}"
        raise ValueError(
            f"spark_conf: {WRITE_AHEAD_LOG}: {said}; must be true with receiver_policy.count, or "
            "a change of the number could lose what was received"
        )
    if bounds.maximum is None:
        return
    places = bounds.maximum * tasks_at_a_time
    if count.maximum >= places:
        each = f"{executor_cores} core(s)"
        if tasks_at_a_time != executor_cores:
            each += f", which run {tasks_at_a_time} task(s)"
        raise ValueError(
            f"receiver_policy.count.maximum = {count.maximum}: must be at most {places - 1}; so "
            f"many receivers would take every core of the maximum of {bounds.maximum} executor(s) "
            f"of {each}, and no batch could run"
        )
