"""What a user declares of a stream's receivers: where they may be, and how many of them. Pure.

The rules are those of the design document of SPARK-12133: version 1 and 2 say which executors may
be removed, version 2 how receivers are spread, version 3 that their number follows the input.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StrictBool

from dagster_sparkscale.declare.declaration import Count, Declaration, Number, Seconds
from dagster_sparkscale.declare.fields import is_a
from dagster_sparkscale.declare.part import Drift, Part, StreamOfParts
from dagster_sparkscale.declare.rates import Rate
from dagster_sparkscale.driver.settings import (
    RECEIVERS,
    RECEIVERS_GENERATION,
    REMOVAL,
    WRITE_AHEAD_LOG,
)

_REMOVAL = "receiver_policy.removal"


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
    """The share of what its receivers can take from which on there are more of them."""

    scale_down_ratio: Annotated[Number, Field(gt=0)] = 0.6
    """The share of what fewer receivers could take down from which there are fewer."""

    step: Count = 1
    """Most receivers that are added or taken away at a time."""

    cooldown: Seconds = 900.0
    """Seconds that a driver runs before the number is changed: each change is a restart."""

    drain: Annotated[Seconds, Field(le=86400.0)] = 300.0
    """Seconds that the driver has to process what its receivers have received, before the number is
    changed. If it needs longer, nothing is changed."""

    _order = (
        ("maximum", "at least", "minimum"),
        ("scale_up_ratio", "above", "scale_down_ratio"),
    )

    def clamp(self, receivers: int) -> int:
        """`receivers` moved into the bounds."""
        return max(self.minimum, min(receivers, self.maximum))


class ReceiverPolicy(Declaration):
    """The policy of a stream's receivers: their executors and their number (SPARK-12133)."""

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


def fitting_executors(receivers: int, tasks_at_a_time: int) -> int:
    """Executors on which so many receivers leave the place of one task free."""
    return receivers // tasks_at_a_time + 1


@dataclass(frozen=True)
class DeclaredReceivers(Part):
    """The receivers of a DStream: each takes the place of one task for good."""

    number: int
    policy: ReceiverPolicy | None

    reserved: ClassVar[Mapping[str, str]] = {
        REMOVAL: "receiver_policy.removal",
        RECEIVERS: "receivers, and the operation set_receivers",
        RECEIVERS_GENERATION: "the operation set_receivers",
    }
    drifts: ClassVar[Mapping[str, Drift]] = {
        "receivers": Drift(late=True),
        _REMOVAL: Drift(absent="never"),
    }

    @property
    def pinned(self) -> int:
        return self.number

    def least_executors(self, stream: StreamOfParts, pinned: int) -> int:
        """The least number of executors: as in Spark's ExecutorAllocationManager one for each
        receiver, and one more where no core would be left for a batch; with `fitting`, as many as
        run all receivers and one task more."""
        fitting = fitting_executors(pinned, stream.tasks_at_a_time)
        if self.policy is not None and self.policy.removal == "fitting":
            return fitting
        return max(pinned, fitting)

    def why_so_many(self, stream: StreamOfParts) -> str:
        if not self.number:
            return ""
        fitting = fitting_executors(self.number, stream.tasks_at_a_time)
        if self.least_executors(stream, self.number) == fitting:
            return f": {self.number} receiver(s) and a task of a batch have to fit on them"
        return (
            f": one for each of {self.number} receivers; with receiver_policy.removal = "
            f"'fitting' {fitting} would do"
        )

    def settings(self, stream: StreamOfParts) -> dict[str, str]:
        if not self.number:
            return {}
        made = {RECEIVERS: str(self.number)}
        return made | ({REMOVAL: self.policy.removal} if self.policy is not None else {})

    def declared(self, stream: StreamOfParts) -> dict[str, str]:
        made = {"receivers": str(self.number)}
        if self.policy is not None and self.policy.removal != "never":
            made[_REMOVAL] = self.policy.removal
        return made

    def check(self, stream: StreamOfParts) -> None:
        minimum, each = stream.bounds.minimum, stream.tasks_at_a_time
        if self.number and minimum * each <= self.number:
            raise ValueError(
                f"receivers = {self.number}: would take every core of the minimum of {minimum} "
                f"executor(s) of {_cores(stream)}, and no batch could run; raise "
                f"autoscale.min_executors to {self.least_executors(stream, self.number)}, or "
                "executor_cores"
            )
        if self.policy is not None and not self.number:
            raise ValueError(
                "receiver_policy: drop it, or say how many receivers there are; the stream has none"
            )
        if self.policy is not None and self.policy.count is not None:
            self._check_count(self.policy.count, stream)

    def _check_count(self, count: ReceiverCount, stream: StreamOfParts) -> None:
        if count.clamp(self.number) != self.number:
            raise ValueError(
                f"receivers = {self.number}: must be within receiver_policy.count, {count.minimum} "
                f"to {count.maximum}; it is what the stream begins with"
            )
        if stream.checkpoint_location is None:
            raise ValueError(
                "checkpoint_location = None: must be given with receiver_policy.count; what was "
                "received and not processed is kept there while the number is changed"
            )
        given = stream.spark_conf.get(WRITE_AHEAD_LOG)
        if given is None or given.strip().lower() != "true":
            said = "missing" if given is None else f"{given!r}"
            raise ValueError(
                f"spark_conf: {WRITE_AHEAD_LOG}: {said}; must be true with receiver_policy.count, "
                "or a change of the number could lose what was received"
            )
        most = stream.bounds.maximum
        if most is not None and count.maximum >= (places := most * stream.tasks_at_a_time):
            raise ValueError(
                f"receiver_policy.count.maximum = {count.maximum}: must be at most {places - 1}; "
                f"so many receivers would take every core of the maximum of {most} executor(s) of "
                f"{_cores(stream)}, and no batch could run"
            )


def _cores(stream: StreamOfParts) -> str:
    """The cores of an executor, and how many tasks they run where that is another number."""
    cores, tasks = stream.executor_cores, stream.tasks_at_a_time
    return f"{cores} core(s)" + (f", which run {tasks} task(s)" if tasks != cores else "")
