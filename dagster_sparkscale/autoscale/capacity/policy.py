"""The capacity policy: as many executors as a stream needs, at the price of being late. Pure."""

from typing import Annotated

from pydantic import Field

from dagster_sparkscale.autoscale import rules
from dagster_sparkscale.autoscale.capacity.decide import DOWN, UP, Sizing, by_ratio
from dagster_sparkscale.autoscale.capacity.learner import Known
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.declare.declaration import Number
from dagster_sparkscale.declare.learner import Learner, Workload
from dagster_sparkscale.declare.policies import AutoscalePolicy
from dagster_sparkscale.observe.evaluation import Evaluation


class CapacityPolicy(AutoscalePolicy):
    """Scale to the number of executors for which these and late minutes together cost least.

    It learns from the stream's minutes how long a batch takes by its records and executors, and
    how the load goes on from what it is; it sizes by both, in one step. Until it knows enough it
    decides by R, as `RatioPolicy` does, and says why.
    """

    price_of_lateness: Annotated[Number, Field(gt=0, le=10_000)] = 40.0
    """Executor-minutes that a late minute costs: how many executors may run for a minute more, so
    that a minute is not late. 10 is frugal, 400 careful."""

    def learner(self, workload: Workload, /) -> Learner:
        """What decides, before the first minute."""
        return Sizing(self.max_lag, Known(workload, self.price_of_lateness, self.interval))

    def decide(self, bounds: Bounds, evaluation: Evaluation, /) -> Hold | ScaleTo:
        """The decision without any minute, by R."""
        case = rules.Case(UP, DOWN, self.max_lag, bounds, evaluation)
        return by_ratio(case, "its minutes have not been read back yet")
