"""What holds of every decision by ratio, whatever was seen."""

from dataclasses import replace
from math import floor

from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.declare.decisions import Hold, ScaleTo
from dagster_sparkscale.observe.evaluation import Load
from tests.autoscale.deciding import any_bounds, anything, decided, policies, ratios, target
from tests.fakes import scaled


class TestProperties:
    @given(policies, any_bounds, anything)
    def test_a_target_is_always_within_the_bounds_and_a_change(self, policy, bounds, seen):
        decision = policy.decide(bounds, seen)
        if isinstance(decision, ScaleTo):
            assert bounds.clamp(decision.target) == decision.target
            assert decision.target != seen.requested

    @given(policies, any_bounds, anything)
    def test_every_decision_says_why_and_is_the_same_again(self, policy, bounds, seen):
        decision = policy.decide(bounds, seen)
        assert decision.reason.strip()
        assert str(decision) in ("hold", f"scale to {getattr(decision, 'target', None)}")
        assert policy.decide(bounds, seen) == decision

    @given(policies, any_bounds, anything)
    def test_nothing_is_scaled_on_what_was_not_measured(self, policy, bounds, seen):
        for blind in (replace(seen, registered=None), replace(seen, requested=None)):
            assert isinstance(policy.decide(bounds, blind), Hold)
        silent = replace(seen, ratio=None, loads=(), overdue=None, stalled=None)
        if seen.requested is not None and bounds.clamp(seen.requested) == seen.requested:
            assert isinstance(policy.decide(bounds, silent), Hold)

    @given(policies, any_bounds, st.integers(1, 100), ratios, ratios)
    def test_more_load_never_means_fewer_executors(self, policy, bounds, registered, one, other):
        registered = bounds.clamp(registered)
        less, more = sorted((one, other))
        after = [
            target(decided(bounds, policy, registered=registered, ratio=ratio), registered)
            for ratio in (less, more)
        ]
        assert after[0] <= after[1]

    @given(
        st.tuples(ratios, ratios).map(sorted),
        any_bounds,
        st.integers(1, 100),
        st.integers(0, 100),
    )
    def test_among_overloads_more_load_never_asks_for_less(self, pair, bounds, registered, extra):
        requested = bounds.clamp(registered + extra)
        after = [
            target(
                decided(bounds, registered=registered, requested=requested, ratio=0.9 + ratio),
                requested,
            )
            for ratio in pair
        ]
        assert after[0] <= after[1]

    @given(anything, any_bounds, policies, st.floats(1, 1000), *[st.integers(1, 100)] * 2)
    def test_nothing_is_removed_beside_an_overdue_batch(
        self, seen, bounds, policy, overdue, registered, requested
    ):
        requested = bounds.clamp(requested)
        seen = replace(seen, overdue=overdue, registered=registered, requested=requested)
        decision = policy.decide(bounds, seen)
        if isinstance(decision, ScaleTo):
            assert decision.target >= bounds.clamp(seen.staying)

    @given(anything, any_bounds, policies, st.integers(0, 100))
    def test_low_load_never_asks_for_more_than_is_requested(self, seen, bounds, policy, requested):
        low = replace(seen, ratio=policy.scale_down_ratio, stalled=None)
        low = replace(low, requested=bounds.clamp(requested))
        decision = policy.decide(bounds, low)
        assert target(decision, low.requested) <= low.requested

    @given(anything, any_bounds, policies, ratios, st.integers(0, 100))
    def test_time_that_the_driver_spends_by_itself_never_asks_for_executors(
        self, seen, bounds, policy, more, requested
    ):
        planning = policy.scale_up_ratio + more
        load = Load("q", planning * 2, planning)
        seen = replace(seen, ratio=load.ratio, loads=(load,), stalled=None)
        seen = replace(seen, requested=bounds.clamp(requested))
        assert isinstance(policy.decide(bounds, seen), Hold)

    @given(anything, any_bounds, policies, st.floats(1, 1000), st.integers(0, 100))
    def test_nor_does_a_batch_that_no_executor_has_a_task_of(
        self, seen, bounds, policy, overdue, requested
    ):
        seen = replace(seen, overdue=overdue, stalled=overdue, active_tasks=0, ratio=None, loads=())
        seen = replace(seen, requested=bounds.clamp(requested))
        assert isinstance(policy.decide(bounds, seen), Hold)

    @given(anything, any_bounds, policies, st.integers(0, 100), st.integers(0, 100))
    def test_who_is_leaving_is_no_capacity(self, seen, bounds, policy, staying, removing):
        requested = bounds.clamp(staying)
        some = replace(seen, requested=requested, registered=staying + removing, removing=removing)
        none = replace(seen, requested=requested, registered=staying, removing=0)
        after = target(policy.decide(bounds, some), requested)
        if after < requested:
            assert removing == 0 or requested > staying, "one after the other"
        elif after > requested:
            assert after == target(policy.decide(bounds, none), requested)

    @given(st.lists(st.floats(0, 3), min_size=1, max_size=30), st.integers(1, 20))
    def test_with_a_cluster_that_obeys_no_sequence_of_loads_leaves_the_bounds(self, loads, start):
        stream = scaled(min_executors=2, max_executors=12)
        executors = stream.bounds.clamp(start)
        for load in loads:
            decision = decided(stream.bounds, registered=executors, ratio=load)
            after = target(decision, executors)
            assert 2 <= after <= 12
            assert executors - after <= 1, "one executor is removed at a time"
            assert after - executors <= max(1, floor(load + 0.5))
            executors = after
