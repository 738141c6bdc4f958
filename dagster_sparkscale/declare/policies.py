"""What a policy is: the base of those that scale, and how a failed driver is restarted. Pure."""

from collections.abc import Iterator
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field

from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.declare.declaration import Count, Declaration, Number, Order, Seconds
from dagster_sparkscale.declare.learner import Learned, Learner, Workload
from dagster_sparkscale.durations import in_units, parse_duration
from dagster_sparkscale.observe.evaluation import Evaluation
from dagster_sparkscale.quantities import counted


class AutoscalePolicy(Declaration):
    """What every policy has: when it is evaluated, between which numbers it may move, how it
    decides. A new one is a subclass that says how."""

    interval: Seconds = 60.0
    """Seconds between two evaluations, and the length of the window each of them looks at."""

    min_executors: Count | None = None
    """Fewest executors. None: 1, or as many as the stream has receivers (as Spark does)."""

    max_executors: Count | None = None
    """Most executors. None: as many as `spark.cores.max` and the cluster admit."""

    ceiling: Count | None = None
    """Most executors that a person or a calendar may have it run while it runs, by pin or bounds;
    `spark.cores.max` is set from it. None: `max_executors`."""

    hand_pin: Annotated[Number, BeforeValidator(parse_duration), Field(ge=0)] = 3600.0
    """Seconds for which a rescale by hand pins its number of executors; 0: it does not, and the
    policy goes on from there."""

    min_gain: Annotated[Number, Field(gt=0, le=1)] | None = None
    """Least share of the speed-up that more executors should bring, below which they are taken
    back. None: what they bring is not measured, as in Spark."""

    retry_after: Seconds = 3600.0
    """Seconds for which so many executors are not tried again after they were taken back."""

    initial_executors: Count | None = None
    """Executors a new driver starts with. None: the minimum."""

    max_lag: Seconds | None = None
    """How far behind the tip of its source the stream may be, in seconds; a health check says
    whether it is. None: as far as it likes. For sources that tell."""

    scale_down_window: Seconds | None = None
    """Seconds over which the largest number of executors that was asked for is taken, before fewer
    are. None: fewer are taken at once."""

    def decide(self, bounds: Bounds, evaluation: Evaluation, /) -> Hold | ScaleTo:
        """What is to happen to a stream. Pure: no clock, no I/O.

        Args:
            bounds: between which numbers of executors the stream can move at present.
            evaluation: what it did in the last `interval` seconds, or since it was last decided on.
        """
        # Not reached by a stream: it refuses a policy that leaves it at this.
        return Hold(f"{type(self).__name__} does not say how to decide")

    def learner(self, workload: Workload, /) -> Learner | None:
        """What decides in place of this policy, where it learns from the stream's minutes: as it is
        before the first of them. None: it learns nothing, and `decide` decides."""
        return None

    _order: ClassVar[Order] = (
        ("max_executors", "at least", "min_executors"),
        ("initial_executors", "at least", "min_executors"),
        ("initial_executors", "at most", "max_executors"),
        ("ceiling", "at least", "min_executors"),
        ("ceiling", "at least", "max_executors"),
        ("ceiling", "at least", "initial_executors"),
        ("scale_down_window", "at least", "interval"),
    )


def learned_of(policy: AutoscalePolicy, workload: Workload) -> Learned | None:
    """What decides in place of a policy before the first minute, and learns from the minutes of the
    last blocks; None: it learns nothing."""
    nothing = policy.learner(workload)
    return None if nothing is None else Learned.of(nothing)


class RecoveryPolicy(Declaration):
    """How a driver that failed is started again: with growing pauses, and not for ever."""

    first_delay: Seconds = 10.0
    """Seconds between the first failure and the restart; doubled for each further one."""

    longest_delay: Seconds = 300.0
    """Seconds no pause exceeds."""

    limit: Annotated[Count, Field(le=20)] = 5
    """Restarts within `within` after which the stream is left for a person to look at. At most 20:
    that many starts every cluster manager remembers."""

    within: Seconds = 3600.0
    """Seconds over which restarts are counted."""

    _order = (("longest_delay", "at least", "first_delay"),)

    def _faults(self) -> Iterator[str]:
        yield from super()._faults()
        # A limit of restarts that drivers which fail at once never reach: recovery would never
        # give up.
        seconds, most = 0.0, 1
        while most < self.limit and seconds < self.within:
            seconds += min(self.first_delay * 2.0**most, self.longest_delay)
            most += seconds < self.within
        if most < self.limit:
            yield (
                f"limit = {self.limit}: can't be reached, so the stream would be restarted for "
                f"ever: these pauses allow {counted(most, 'restart')} in "
                f"within = {in_units(self.within)}; must be at most {most}, or within longer"
            )
