"""Which stream gets the cores that a budget leaves."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.autoscale.budget import Share, cuts
from dagster_sparkscale.declare.budget import Budget
from tests.fakes import scaled, structured

NAMES = "abcdefgh"


def share(name: str, executors: int, target: int | None = None, **stream) -> Share:
    return Share(structured(name, **stream), executors, target)


def targets(budget: Budget, *shares: Share) -> dict[str, int]:
    return {name: cut.target for name, cut in cuts(budget, shares).items()}


def test_what_fits_is_not_cut() -> None:
    assert targets(Budget(cores=10), share("a", 4, 6), share("b", 2, 4)) == {}


def test_one_that_does_not_fit_gets_what_is_left_and_hears_who_has_the_rest() -> None:
    shares = share("orders", 3, 8, executor_cores=2), share("clicks", 2), share("idle", 0)
    cut = cuts(Budget(cores=12), shares)["orders"]
    assert cut.target == 5
    assert cut.why == (
        "the budget of the cluster is 12 cores, 12 are taken (clicks 2), and 6 more are wanted"
    )


def test_the_highest_priority_is_served_first_and_then_the_smallest() -> None:
    budget = Budget(cores=10)
    shares = share("a", 1, 5), share("b", 2, 6, priority=1), share("c", 2, 5)
    assert targets(budget, *shares) == {"a": 2, "c": 2}


def test_cores_too_few_for_a_high_priority_are_not_taken_by_a_lower_one() -> None:
    big = share("big", 1, 2, executor_cores=4, priority=1)
    assert targets(Budget(cores=8), big, share("small", 2, 4)) == {"big": 1, "small": 2}
    # One of its own priority may have them.
    assert targets(Budget(cores=8), big, share("small", 2, 4, priority=1)) == {"big": 1}


def test_a_group_has_a_budget_of_its_own_within_that_of_the_cluster() -> None:
    budget = Budget(cores=20, groups={"etl": 6})
    shares = share("a", 3, 6, group="etl"), share("b", 3, group="etl"), share("c", 1, 12)
    assert targets(budget, *shares) == {"a": 3}
    assert "the budget of group 'etl' is 6 cores" in cuts(budget, shares)["a"].why
    # Streams without a group are in Dagster's default one.
    assert targets(Budget(groups={"default": 3}), share("a", 2, 4)) == {"a": 3}


def test_nothing_is_taken_from_who_has_too_much() -> None:
    assert targets(Budget(cores=4), share("a", 6, 4), share("b", 3, 4)) == {"b": 3}


@given(
    st.builds(
        Budget,
        cores=st.integers(1, 40),
        groups=st.dictionaries(st.sampled_from(["x", "y"]), st.integers(1, 30)),
    ),
    st.lists(
        st.tuples(
            st.integers(0, 9), st.none() | st.integers(0, 12), st.integers(1, 4), st.integers(-1, 1)
        ),
        max_size=8,
    ),
    st.lists(st.sampled_from([None, "x", "y"]), min_size=8, max_size=8),
)
def test_no_budget_is_ever_exceeded_and_no_priority_passed_over(budget, streams, groups) -> None:
    shares = [
        share(name, have, target, executor_cores=cores, priority=priority, group=group)
        for name, (have, target, cores, priority), group in zip(
            NAMES, streams, groups, strict=False
        )
    ]
    cut = cuts(budget, shares)
    before, after = Counter(), Counter()
    for each in shares:
        name, cores = each.stream.name, each.stream.executor_cores
        wants = each.target if each.target is not None else each.executors
        gets = cut[name].target if name in cut else max(wants, each.executors)
        assert each.executors <= gets <= max(wants, each.executors)
        for scope in budget.scopes(each.stream):
            before[scope] += each.cores
            after[scope] += gets * cores
    for scope in after:
        assert after[scope] <= max(before[scope], budget.most(scope))
    for each in shares:
        mine = cut.get(each.stream.name)
        if mine is None:
            continue
        for other in shares:
            served = other.extra and (
                other.stream.name not in cut or cut[other.stream.name].target > other.executors
            )
            shared = set(budget.scopes(other.stream)) & set(budget.scopes(each.stream))
            if served and other.stream.priority < each.stream.priority and shared:
                # It got cores of a scope which is not what keeps the other one.
                assert any(
                    after[scope] + each.stream.executor_cores > budget.most(scope)
                    for scope in set(budget.scopes(each.stream)) - shared
                )


def test_it_does_not_matter_in_which_order_streams_are_declared() -> None:
    shares = [share(name, 1, 4, executor_cores=1 + number % 2) for number, name in enumerate("abc")]
    budget = Budget(cores=9)
    assert cuts(budget, shares) == cuts(budget, shares[::-1])


def test_a_policy_s_stream_has_a_priority() -> None:
    assert scaled().priority == 0
