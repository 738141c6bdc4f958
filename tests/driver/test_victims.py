from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.driver.victims import Candidate, choose

CANDIDATES = st.lists(
    st.builds(
        Candidate,
        id=st.integers(0, 40).map(str) | st.sampled_from(["driver-x", "pod-7"]),
        active_tasks=st.integers(0, 4),
        receivers=st.integers(0, 2),
        leaving=st.booleans(),
    ),
    max_size=15,
    unique_by=lambda candidate: candidate.id,
)


@given(CANDIDATES, st.integers(1, 15))
def test_a_choice_is_always_safe(executors: list[Candidate], target: int) -> None:
    choice = choose(executors, target)
    by_id = {executor.id: executor for executor in executors}
    victims = [by_id[id] for id in choice.victims]
    staying = [executor for executor in executors if not executor.leaving]

    assert len(set(choice.victims)) == len(victims)
    assert not any(victim.receivers or victim.leaving for victim in victims)
    assert len(victims) <= max(0, len(staying) - target)
    assert len(staying) - len(victims) >= min(target, len(staying))
    # As many go as may: what is left over all holds receivers, and that is said.
    stuck = len(staying) - len(victims) > target
    assert (choice.blocked is not None) == stuck
    if stuck:
        assert all(e.receivers for e in staying if e.id not in choice.victims)


@given(CANDIDATES, st.integers(1, 15))
def test_nobody_goes_who_works_more_than_one_who_stays(
    executors: list[Candidate], target: int
) -> None:
    choice = choose(executors, target)
    free = [e for e in executors if not e.leaving and not e.receivers]
    going = [e.active_tasks for e in free if e.id in choice.victims]
    staying = [e.active_tasks for e in free if e.id not in choice.victims]
    assert not going or not staying or max(going) <= min(staying)


@given(CANDIDATES, st.integers(1, 15), st.randoms())
def test_the_choice_does_not_hang_on_the_order(executors: list, target: int, random) -> None:  # type: ignore[no-untyped-def]
    shuffled = list(executors)
    random.shuffle(shuffled)
    assert choose(shuffled, target) == choose(executors, target)


@given(CANDIDATES, st.integers(1, 15))
def test_a_second_choice_takes_nobody_more(executors: list[Candidate], target: int) -> None:
    first = choose(executors, target)
    told = [
        Candidate(e.id, e.active_tasks, e.receivers, e.leaving or e.id in first.victims)
        for e in executors
    ]
    assert choose(told, target).victims == ()


def test_of_equals_the_youngest_goes() -> None:
    executors = [Candidate("2"), Candidate("10"), Candidate("9")]
    assert choose(executors, 1).victims == ("10", "9")


def test_it_says_why_no_more_go() -> None:
    executors = [Candidate("0", receivers=1), Candidate("1", receivers=2), Candidate("2")]
    choice = choose(executors, 1)
    assert choice.victims == ("2",)
    assert choice.blocked is not None
    assert choice.blocked.startswith("2 executor(s) hold receivers")


def test_of_one_too_many_one_goes() -> None:
    executors = [Candidate("1"), Candidate("2")]
    assert choose(executors, 2).victims == choose(executors, 3).victims == ()
    assert choose(executors, 1).victims == ("2",)
