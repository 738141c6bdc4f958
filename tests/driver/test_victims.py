from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.driver.executors.victims import Candidate, Rule, choose

CANDIDATES = st.lists(
    st.builds(
        Candidate,
        id=st.integers(0, 40).map(str) | st.sampled_from(["driver-x", "pod-7"]),
        active_tasks=st.integers(0, 4),
        pins=st.integers(0, 2),
        leaving=st.booleans(),
        cores=st.integers(0, 4),
        evacuating=st.booleans(),
    ),
    max_size=15,
    unique_by=lambda candidate: candidate.id,
)
RULES = st.builds(Rule, fitting=st.booleans(), pins=st.integers(0, 12), task_cpus=st.integers(1, 3))


def room(executors: list[Candidate], rule: Rule) -> int:
    """How many tasks at once these can be told to run."""
    return sum(executor.cores // rule.task_cpus for executor in executors)


@given(CANDIDATES, st.integers(1, 15), RULES)
def test_a_choice_is_always_safe(executors: list[Candidate], target: int, rule: Rule) -> None:
    choice = choose(executors, target, rule)
    by_id = {executor.id: executor for executor in executors}
    victims = [by_id[id] for id in choice.victims]
    staying = [executor for executor in executors if not executor.leaving]
    left = [executor for executor in staying if executor.id not in choice.victims]

    assert len(set(choice.victims)) == len(victims)
    assert not any(victim.leaving for victim in victims)
    assert len(victims) <= max(0, len(staying) - target)
    assert len(staying) - len(victims) >= min(target, len(staying))
    if not rule.fitting:
        assert not any(victim.pins for victim in victims)
    elif rule.pins and victims:
        assert room(left, rule) > rule.pins
    # As many go as may: none of what is left over may go, and that is said.
    stuck = len(left) > target
    assert (choice.blocked is not None) == stuck
    assert (choice.why is not None) == bool(victims)
    for one in left if stuck else ():
        others = [executor for executor in left if executor is not one]
        if rule.fitting:
            assert room(others, rule) <= rule.pins != 0
        else:
            assert one.pins


@given(CANDIDATES, st.integers(1, 15), RULES)
def test_nobody_goes_who_hosts_or_works_more_than_one_who_stays(
    executors: list[Candidate], target: int, rule: Rule
) -> None:
    """Where all are as large, so that it makes no difference to the cores who goes."""
    alike = [replace(executor, cores=2, evacuating=False) for executor in executors]
    choice = choose(alike, target, rule)
    free = [e for e in alike if not e.leaving and (rule.fitting or not e.pins)]
    going = [(e.pins, e.active_tasks) for e in free if e.id in choice.victims]
    staying = [(e.pins, e.active_tasks) for e in free if e.id not in choice.victims]
    assert not going or not staying or max(going) <= min(staying)


@given(CANDIDATES, st.integers(1, 15), RULES, st.randoms())
def test_the_choice_does_not_hang_on_the_order(executors: list, target: int, rule, random) -> None:  # type: ignore[no-untyped-def]
    shuffled = list(executors)
    random.shuffle(shuffled)
    assert choose(shuffled, target, rule) == choose(executors, target, rule)


@given(CANDIDATES, st.integers(1, 15), RULES)
def test_a_second_choice_takes_nobody_more(
    executors: list[Candidate], target: int, rule: Rule
) -> None:
    first = choose(executors, target, rule)
    told = [replace(e, leaving=e.leaving or e.id in first.victims) for e in executors]
    assert choose(told, target, rule).victims == ()


@given(CANDIDATES, st.integers(1, 15), RULES, st.data())
def test_a_choice_stands_while_its_receivers_move(
    executors: list[Candidate], target: int, rule: Rule, data: st.DataObject
) -> None:
    """Those that are left host more and those that go host less, and it is the same ones still."""
    alike = [replace(executor, cores=2, evacuating=False) for executor in executors]
    first = choose(alike, target, replace(rule, fitting=True))
    later = [
        replace(e, evacuating=True, pins=data.draw(st.integers(0, e.pins)))
        if e.id in first.victims
        else replace(e, active_tasks=data.draw(st.integers(0, 4)))
        for e in alike
    ]
    assert set(choose(later, target, replace(rule, fitting=True)).victims) == set(first.victims)


def test_of_equals_the_youngest_goes() -> None:
    executors = [Candidate("2"), Candidate("10"), Candidate("9")]
    assert choose(executors, 1).victims == ("10", "9")


def test_those_without_a_number_go_by_their_names() -> None:
    executors = [Candidate("pod-b"), Candidate("3"), Candidate("pod-a")]
    assert choose(executors, 1).victims == ("3", "pod-a")


def test_it_says_why_no_more_go() -> None:
    executors = [Candidate("0", pins=1), Candidate("1", pins=2), Candidate("2")]
    choice = choose(executors, 1)
    assert choice.victims == ("2",)
    assert choice.blocked is not None
    assert choice.blocked.startswith("2 executor(s) hold receivers")


def test_of_one_too_many_one_goes() -> None:
    executors = [Candidate("1"), Candidate("2")]
    assert choose(executors, 2).victims == choose(executors, 3).victims == ()
    assert choose(executors, 1).victims == ("2",)


FIVE = [Candidate(str(number), pins=1, cores=4) for number in range(5)]
"""The example of SPARK-12133: five executors of four cores, a receiver on each."""
FITTING = Rule(fitting=True, pins=5)


def test_receivers_may_go_where_the_cores_that_stay_run_them() -> None:
    choice = choose(FIVE, 2, FITTING)
    assert choice.victims == ("4", "3", "2") and choice.blocked is None
    assert choice.why == (
        "fewest receivers first, then least running work, then youngest: 4 (1 receivers, 0 "
        "tasks), 3 (1 receivers, 0 tasks), 2 (1 receivers, 0 tasks); those that stay run 8 tasks "
        "at once, 5 of them receivers"
    )


@pytest.mark.parametrize(
    ("cores", "task_cpus", "stay"), [(4, 1, 2), (6, 1, 1), (5, 1, 2), (4, 2, 3), (3, 2, 5)]
)
def test_a_core_is_kept_for_each_receiver_and_one_for_batches(
    cores: int, task_cpus: int, stay: int
) -> None:
    executors = [replace(executor, cores=cores) for executor in FIVE]
    choice = choose(executors, 1, replace(FITTING, task_cpus=task_cpus))
    assert len(choice.victims) == 5 - stay
    if stay > 1:
        assert choice.blocked == (
            f"{stay} executor(s) will stay although the target is 1: one less, and those that "
            "stay would not run all 5 receivers and a task of a batch beside them (the "
            f"{stay} run {stay * (cores // task_cpus)} tasks at once)"
        )


def test_one_without_receivers_stays_too_where_its_core_is_needed() -> None:
    full = Candidate("0", pins=4, cores=4)
    choice = choose([full, Candidate("1", cores=4)], 1, replace(FITTING, pins=4))
    assert choice.victims == ()
    assert choose([full, Candidate("1", cores=4)], 1).victims == ("1",)


def test_where_cores_are_not_known_nobody_goes_and_it_says_so() -> None:
    executors = [replace(executor, cores=0) for executor in FIVE]
    choice = choose(executors, 4, FITTING)
    assert choice.victims == ()
    assert choice.blocked == (
        "5 executor(s) will stay although the target is 4: one less, and those that stay would not "
        "run all 5 receivers and a task of a batch beside them (the 5 run 0 tasks at once); how "
        "many cores there are is not known of executor(s) 4, 3, 2, 1, 0"
    )


def test_without_receivers_cores_do_not_matter() -> None:
    executors = [Candidate("0"), Candidate("1")]
    assert choose(executors, 1, replace(FITTING, pins=0)).victims == ("1",)
