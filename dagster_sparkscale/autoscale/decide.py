"""Which policy decides: one function a policy type. A new policy registers itself here. Pure."""

from functools import singledispatch

from dagster_sparkscale.autoscale.ratio import decide_by_ratio
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import Decision, Hold
from dagster_sparkscale.declare.policies import RatioPolicy
from dagster_sparkscale.observe.evaluation import Evaluation


@singledispatch
def decide(policy: object, bounds: Bounds, seen: Evaluation) -> Decision:
    """The decision of `policy` on what was seen."""
    raise TypeError(f"{type(policy).__name__} is not a policy this version can decide by")


def can_decide(policy: object) -> bool:
    """Whether a function is registered for the type of `policy`."""
    return decide.dispatch(type(policy)) is not decide.dispatch(object)


@decide.register
def _(policy: None, bounds: Bounds, seen: Evaluation) -> Decision:
    return Hold("the stream has no autoscale policy")


@decide.register
def _(policy: RatioPolicy, bounds: Bounds, seen: Evaluation) -> Decision:
    return decide_by_ratio(policy, bounds, seen)
