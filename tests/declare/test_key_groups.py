"""Where keys lie, and what moves: against Spark's own rule, key by key."""

from math import lcm
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.declare.declaration import DeclarationError
from dagster_sparkscale.declare.key_groups import KeyGroups, Moves, skew

COUNTS = st.one_of(st.integers(1, 60), st.sampled_from([120, 128, 360, 720]))
"""Of keys, as Spark's are: 32 bits with a sign."""


def fitting(count: int) -> st.SearchStrategy[int]:
    return st.sampled_from(KeyGroups(count).counts())


@pytest.mark.parametrize("count", [1, 128, 32768])
def test_there_can_be_so_many(count: int) -> None:
    assert KeyGroups(count).count == count


@pytest.mark.parametrize("count", [0, -1, 32769, 1.5, True, "128", None])
def test_there_can_not_be_so_many(count: Any) -> None:
    with pytest.raises(DeclarationError) as refused:
        KeyGroups(count)
    assert str(refused.value) == (
        f"KeyGroups: count = {count!r}: must be a whole number from 1 to 32768"
    )


def test_the_numbers_of_partitions_that_there_may_be() -> None:
    assert KeyGroups(12).counts() == (1, 2, 3, 4, 6, 12)
    assert KeyGroups(4).counts(plain_hash=True) == (1, 2, 3, 4)


@given(COUNTS, st.integers(-2, 800), st.booleans())
def test_no_reason_against_a_number_exactly_where_it_is_among_them(
    count: int, partitions: int, plain_hash: bool
) -> None:
    groups = KeyGroups(count)
    fits = partitions in groups.counts(plain_hash)
    assert (groups.why_not(partitions, plain_hash) is None) is fits


@pytest.mark.parametrize(
    ("partitions", "why"),
    [
        (0, "must be a whole number of at least 1"),
        (-4, "must be a whole number of at least 1"),
        (2.0, "must be a whole number of at least 1"),
        (True, "must be a whole number of at least 1"),
        (129, "must be at most 128, as there are 128 key groups"),
        (
            48,
            "must divide 128, the number of key groups, as 32 and 64 do; State(plain_hash=True) "
            "allows any other, for which every key may move",
        ),
    ],
)
def test_why_there_can_not_be_so_many_partitions(partitions: Any, why: str) -> None:
    assert KeyGroups(128).why_not(partitions) == why


def test_plain_hash_allows_any_number_but_more_than_key_groups() -> None:
    assert KeyGroups(128).why_not(48, plain_hash=True) is None
    assert KeyGroups(128).why_not(128, plain_hash=True) is None
    assert KeyGroups(128).why_not(129, plain_hash=True) is not None


@pytest.mark.parametrize(
    ("method", "arguments", "said"),
    [
        ("moves", (0, 4), "before = 0: must be at least 1"),
        ("moves", (4, True), "after = True: must be at least 1"),
        ("covering", (0,), "tasks = 0: must be at least 1"),
    ],
)
def test_what_is_asked_in_vain(method: str, arguments: tuple[Any, ...], said: str) -> None:
    with pytest.raises(ValueError) as refused:
        getattr(KeyGroups(12), method)(*arguments)
    assert str(refused.value).startswith(said)


@given(COUNTS, st.integers(1, 24), st.integers(1, 24))
def test_the_share_that_moves_is_that_of_hashes_that_do(
    count: int, before: int, after: int
) -> None:
    cycle = range(lcm(before, after))
    moved = sum(hashed % before != hashed % after for hashed in cycle)
    moves = KeyGroups(count).moves(before, after)
    assert moves.share == pytest.approx(moved / len(cycle))
    assert (moves.before, moves.after, moves.key_groups) == (before, after, count)


@given(
    COUNTS.flatmap(lambda count: st.tuples(st.just(count), fitting(count), fitting(count))),
)
def test_between_numbers_that_divide_theirs_that_is_the_share_of_key_groups(
    sizes: tuple[int, int, int],
) -> None:
    count, before, after = sizes
    groups = KeyGroups(count)
    moved = sum(g % before != g % after for g in range(count))
    assert groups.moves(before, after).share == pytest.approx(moved / count)


@given(
    COUNTS.flatmap(lambda count: st.tuples(st.just(count), fitting(count), fitting(count))),
)
def test_partitions_split_and_merge_whole(sizes: tuple[int, int, int]) -> None:
    count, before, after = sizes
    groups = KeyGroups(count)
    moves = groups.moves(before, after)
    came = [{g % before for g in range(p, count, after)} for p in range(after)]
    went = [{g % after for g in range(p, count, before)} for p in range(before)]
    assert moves.whole
    if before == after:
        assert moves.splits is moves.merges is None
        return
    # Of each new partition all comes from one, of which it is the same part as others.
    assert (moves.splits is not None) is all(len(each) == 1 for each in came)
    assert moves.splits is None or {len(each) for each in went} == {moves.splits}
    assert (moves.merges is not None) is all(len(each) == 1 for each in went)
    assert moves.merges is None or {len(each) for each in came} == {moves.merges}


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (4, 4, "nothing moves"),
        (2, 6, "each partition splits into 3; 67% of the key groups move"),
        (12, 3, "4 partitions at a time merge into one; 75% of the key groups move"),
        (4, 6, "key groups stay whole and are dealt out anew; 67% of the key groups move"),
        (
            4,
            5,
            "every key may move, as by Spark's plain hash, for 5 does not divide 12 key groups; "
            "80% of the keys do",
        ),
        (
            200,
            4,
            "every key may move, as by Spark's plain hash, for 200 does not divide 12 key groups; "
            "98% of the keys do",
        ),
    ],
)
def test_what_moves_in_words(before: int, after: int, words: str) -> None:
    assert str(KeyGroups(12).moves(before, after)) == words


def test_one_number_that_does_not_divide_them_is_enough_for_every_key_to_move() -> None:
    for before, after in ((5, 10), (5, 6), (6, 5)):
        moves = KeyGroups(12).moves(before, after)
        assert (moves.whole, moves.splits, moves.merges) == (False, None, None)
    assert Moves(6, 12, 12, 0.5).whole


@pytest.mark.parametrize(
    ("rows", "largest"),
    [((1, 1), 1), ((3, 1), 1.5), ([0, 8], 2), ((5,), 1), ((), None), ((0, 0), None), (None, None)],
)
def test_skew_is_the_largest_over_the_mean(rows: Any, largest: float | None) -> None:
    assert skew(rows) == largest


@given(COUNTS, st.integers(1, 1000))
def test_tasks_are_covered_by_the_smallest_number_that_is_not_far_above(
    count: int, tasks: int
) -> None:
    groups = KeyGroups(count)
    taken = groups.covering(tasks)
    assert groups.why_not(taken) is None
    enough = [n for n in groups.counts() if n >= tasks]
    if not enough:
        assert taken == count
    elif enough[0] <= 2 * tasks:
        assert taken == enough[0]
    else:
        below = max(n for n in groups.counts() if n <= tasks)
        assert taken in (below, enough[0])
        far = max(taken / tasks, tasks / taken)
        assert far <= min(tasks / below, enough[0] / tasks)


@pytest.mark.parametrize(
    ("count", "tasks", "partitions"),
    [(128, 10, 16), (128, 16, 16), (128, 17, 32), (128, 500, 128), (7, 2, 1), (7, 3, 7), (9, 1, 1)],
)
def test_tasks_are_covered_by(count: int, tasks: int, partitions: int) -> None:
    assert KeyGroups(count).covering(tasks) == partitions


@given(st.integers(0, 15), st.integers(1, 40000))
def test_with_a_power_of_two_tasks_are_never_covered_by_fewer(power: int, tasks: int) -> None:
    count = 2**power
    assert KeyGroups(count).covering(tasks) >= min(tasks, count)
