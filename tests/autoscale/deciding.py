"""Decisions on a situation that a test describes, and situations of all kinds."""

from hypothesis import strategies as st

from dagster_sparkscale.autoscale.ratio import RatioPolicy
from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.decisions import ScaleTo
from dagster_sparkscale.observe.evaluation import Evaluation

POLICY = RatioPolicy()
BOUNDS = Bounds(minimum=1, maximum=10, initial=1)


def decided(
    bounds: Bounds = BOUNDS, policy: RatioPolicy = POLICY, registered=4, requested=None, **seen
):
    """The decision on an evaluation; as many executors requested as registered, if not given."""
    requested = registered if requested is None else requested
    evaluation = Evaluation(
        window=60.0, registered=registered, requested=requested, silence="nothing seen", **seen
    )
    return policy.decide(bounds, evaluation)


def target(decision, requested: int) -> int:
    """The number of executors requested once `decision` is carried out."""
    return decision.target if isinstance(decision, ScaleTo) else requested


ratios = st.floats(0, 1000)
anything = st.builds(
    Evaluation,
    window=st.floats(1, 1e4),
    ratio=st.none() | ratios,
    query=st.none() | st.text(),
    overdue=st.none() | st.floats(1, 1000),
    stalled=st.none() | st.floats(1, 1000),
    active_tasks=st.none() | st.integers(0, 3),
    unpaced=st.sampled_from([(), ("q",)]),
    registered=st.none() | st.integers(0, 100),
    removing=st.integers(0, 100),
    requested=st.none() | st.integers(0, 100),
    silence=st.text(min_size=1),
)
any_bounds = st.tuples(st.integers(1, 50), st.none() | st.integers(0, 50)).map(
    lambda pair: Bounds(pair[0], None if pair[1] is None else sum(pair), pair[0])
)
policies = st.tuples(st.floats(0.01, 5), st.floats(0.01, 5)).flatmap(
    lambda pair: (
        st.just(RatioPolicy(scale_up_ratio=max(pair), scale_down_ratio=min(pair)))
        if pair[0] != pair[1]
        else st.nothing()
    )
)
