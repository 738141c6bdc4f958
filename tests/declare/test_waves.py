"""How many partitions are recommended and why, and executors for whole task waves."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.declare.bounds import Bounds
from dagster_sparkscale.declare.key_groups import KeyGroups
from dagster_sparkscale.declare.waves import Recommendation, aligned, recommend, waves

MIB = 1024**2
SMALL = st.integers(1, 60)


def recommended(key_groups: int = 128, **given: Any) -> Recommendation:
    """Of a query with 8 partitions, of 100,000 rows each, and 8 cores at most."""
    known = {
        "partitions": 8,
        "rows": 800_000,
        "size": 100 * MIB,
        "cores": 2,
        "bounds": Bounds(1, 4, 1),
        "executors": 2,
    }
    return recommend(KeyGroups(key_groups), **{**known, **given})


@given(SMALL, SMALL, SMALL)
def test_waves_are_counted_task_by_task(partitions: int, executors: int, cores: int) -> None:
    left, ran = partitions, 0
    while left > 0:
        left, ran = left - executors * cores, ran + 1
    assert waves(partitions, executors, cores) == ran


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ((0, 1, 1), "partitions = 0"),
        ((1, 0, 1), "executors = 0"),
        ((1, 1, -1), "cores = -1"),
    ],
)
def test_there_are_no_waves_of_nothing(numbers: tuple[int, int, int], said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}: must be at least 1$"):
        waves(*numbers)


@pytest.mark.parametrize(
    ("target", "now", "partitions", "cores", "executors", "why"),
    [
        (10, 7, 100, 4, 9, "3 waves want 9; 10 would have 3 too"),
        (10, 9, 100, 4, 10, "as many waves as now: stateful stages gain nothing, others may"),
        (13, 10, 100, 4, 13, "2 waves want all of them"),
        (30, 10, 100, 4, 25, "1 wave wants 25"),
        (30, 25, 100, 4, 30, "waves can't get fewer"),
        (24, 30, 100, 4, 13, "2 waves want 13"),
        (26, 30, 100, 4, 25, "those above 25 have nothing to do"),
        (26, 26, 100, 4, 26, "what is held is left alone"),
        (1, 5, 3, 4, 1, "one executor is enough for all"),
        (2, 5, 3, 4, 1, "one executor is enough for all"),
    ],
)
def test_executors_make_whole_waves(
    target: int, now: int, partitions: int, cores: int, executors: int, why: str
) -> None:
    assert aligned(target, now, partitions, cores) == executors, why


def test_executors_stay_at_the_minimum() -> None:
    assert aligned(24, 30, 100, 4, minimum=20) == 20
    assert aligned(24, 30, 100, 4, minimum=24) == 24
    assert aligned(24, 30, 100, 4, minimum=28) == 24, "the target is the policy's"


@given(SMALL, SMALL, st.integers(1, 300), st.integers(1, 8), SMALL)
def test_never_more_than_asked_for_nor_more_waves(
    target: int, now: int, partitions: int, cores: int, minimum: int
) -> None:
    taken = aligned(target, now, partitions, cores, minimum=minimum)
    assert 1 <= taken <= target
    assert taken >= min(minimum, target)
    assert waves(partitions, taken, cores) <= waves(partitions, target, cores)
    # What a policy wants more of it gets more of, and the other way round.
    assert (taken > now) is (target > now)
    assert (taken < now) is (target < now)


@given(SMALL, SMALL, st.integers(1, 300), st.integers(1, 8), SMALL)
def test_fewer_executors_would_make_more_waves(
    target: int, now: int, partitions: int, cores: int, minimum: int
) -> None:
    taken = aligned(target, now, partitions, cores, minimum=minimum)
    changed = target < now or waves(partitions, target, cores) < waves(partitions, now, cores)
    if changed and taken > minimum and taken > 1:
        assert waves(partitions, taken - 1, cores) > waves(partitions, target, cores)


@given(SMALL, SMALL, st.integers(1, 300), st.integers(1, 8), SMALL)
def test_a_policy_that_asks_for_the_same_comes_to_rest_after_two_changes(
    target: int, now: int, partitions: int, cores: int, minimum: int
) -> None:
    for _ in range(2):
        now = aligned(target, now, partitions, cores, minimum=minimum)
    assert aligned(target, now, partitions, cores, minimum=minimum) == now
    assert waves(partitions, now, cores) <= waves(partitions, target, cores)


@given(SMALL, st.integers(1, 300), st.integers(1, 8))
def test_a_policy_that_adds_one_at_a_time_gets_to_any_number_of_waves(
    now: int, partitions: int, cores: int
) -> None:
    for _ in range(partitions):
        now = aligned(now + 1, now, partitions, cores)
    assert waves(partitions, now, cores) == 1


@given(SMALL, st.integers(1, 300), st.integers(1, 8))
def test_a_policy_that_takes_one_at_a_time_gets_down_to_one(
    now: int, partitions: int, cores: int
) -> None:
    while now > 1:
        before, now = now, aligned(now - 1, now, partitions, cores)
        assert now < before


@pytest.mark.parametrize(
    ("given", "partitions"),
    [
        ({"bounds": Bounds(1, 8, 1)}, 16),  # 16 cores
        ({"bounds": Bounds(1, 9, 1)}, 32),  # 18 cores, and 16 partitions for them are too few
        ({"rows": 16_000_000}, 16),
        ({"rows": 15_000_001}, 16),
        ({"rows": 1_600_000, "rows_per_partition": 100_000}, 16),
        ({"size": 16 * 512 * MIB}, 16),
        ({"size": 15 * 512 * MIB + 1}, 16),
        ({"partitions": 4}, 8),
        ({"bounds": Bounds(1, None, 1), "executors": 8}, 16),
        ({"rows": 10**12}, 128),
        ({"rows": None, "bounds": Bounds(1, 8, 1)}, 16),
        # For 3 cores: 2 is nearer than 7.
        ({"key_groups": 14, "partitions": 1, "bounds": Bounds(1, 3, 1), "cores": 1}, 2),
    ],
)
def test_more_partitions_are_recommended(given: dict[str, Any], partitions: int) -> None:
    made = recommended(**given)
    assert made.change
    assert made.partitions == partitions


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"bounds": Bounds(1, 7, 1)},  # 14 cores
        {"rows": 15_000_000},
        {"size": 15 * 512 * MIB},
        {"bounds": Bounds(1, None, 1), "executors": 7},
        # 16 partitions would be right, and there can't be more than 12.
        {"key_groups": 12, "rows": 16_000_000},
        # 7 is the nearest to 4 that there can be, which is twice of 3 and more.
        {"key_groups": 14, "partitions": 3, "bounds": Bounds(1, 4, 1), "cores": 1},
        # Tiny, but one wave.
        {"rows": 100, "partitions": 8},
        {"rows": 79_999, "partitions": 8, "bounds": Bounds(1, 4, 1)},
        # Several waves, but not tiny.
        {"rows": 640_000, "partitions": 64},
        # Tiny, and one wave, though with 40 cores 2 is the nearest number that there can be.
        {"key_groups": 2018, "rows": 100, "partitions": 30, "bounds": Bounds(1, 20, 1)},
        {"key_groups": 2018, "rows": 100, "partitions": 40, "bounds": Bounds(1, 20, 1)},
        # Nearly.
        {"rows": 100, "partitions": 15},
    ],
)
def test_no_change_is_recommended_below_a_factor_of_two(given: dict[str, Any]) -> None:
    made = recommended(**given)
    assert not made.change
    assert made.partitions == given.get("partitions", 8)


@pytest.mark.parametrize(
    ("given", "partitions"),
    [
        ({"partitions": 64, "rows": 639_999}, 8),
        ({"partitions": 16, "rows": 0}, 8),
        ({"partitions": 200, "rows": 5000}, 8),  # of a query that was taken over
        ({"partitions": 64, "rows": 9999, "size": 16 * 512 * MIB}, 16),
    ],
)
def test_tiny_partitions_of_several_waves_become_fewer(
    given: dict[str, Any], partitions: int
) -> None:
    made = recommended(**given)
    assert made.change
    assert made.partitions == partitions


@pytest.mark.parametrize("lacking", ["rows", "size", "maximum"])
def test_what_is_not_known_is_no_reason_for_fewer(lacking: str) -> None:
    known: dict[str, Any] = {"partitions": 64, "rows": 1000, "size": MIB}
    assert recommended(**known).change
    unknown = {"bounds": Bounds(1, None, 1)} if lacking == "maximum" else {lacking: None}
    assert not recommended(**{**known, **unknown}).change


def test_nothing_is_known() -> None:
    nothing = {"rows": None, "size": None, "bounds": Bounds(1, None, 1), "executors": None}
    lacking = (
        "how many executors there may be is not known",
        "how many rows the state has is not known",
        "how large the state is is not known",
    )
    assert recommended(**nothing) == Recommendation(8, False, lacking)
    assert recommended(**nothing, partitions=None) == Recommendation(None, False, lacking)
    assert str(recommended(**nothing, partitions=None)).startswith("not known; how many executors")


def test_where_it_is_not_known_how_many_there_are_what_there_should_be_is() -> None:
    made = recommended(partitions=None, bounds=Bounds(1, 8, 1))
    assert (made.partitions, made.change) == (16, False)
    assert "how many partitions there are is not known" in made.reasons


def test_the_reasons() -> None:
    assert str(recommended(bounds=Bounds(1, 8, 1))) == (
        "16 partitions; 8 executors of 2 cores run 16 tasks at a time"
    )
    assert str(recommended(rows=16_000_000, size=None)) == (
        "16 partitions; 16,000,000 rows fill 16 partitions of at most 1,000,000; "
        "how large the state is is not known"
    )
    assert str(recommended(size=16 * 512 * MIB)) == (
        "16 partitions; 8,192 MiB fill 16 partitions of at most 512 MiB"
    )
    assert str(recommended(partitions=64, rows=64_000)) == (
        "8 partitions; a partition has 1,000 rows, fewer than 10,000; "
        "64 tasks are 8 waves even on 4 executors of 2 cores"
    )
    assert str(recommended()) == (
        "8 partitions; 8 stays: nothing asks for a number that is 2 times larger or smaller; "
        "4 executors of 2 cores run 8 tasks at a time; "
        "800,000 rows fill 1 partition of at most 1,000,000; "
        "100 MiB fill 1 partition of at most 512 MiB"
    )
    assert "; there are no more than 12 key groups" in str(
        recommended(key_groups=12, rows=10**9, partitions=6)
    )
    assert "; there are no more than 12 key groups" in str(
        recommended(key_groups=12, rows=16_000_000)
    ), "of which 8 would become 12"
    assert "run 16 tasks at a time, and no maximum is declared" in str(
        recommended(bounds=Bounds(1, None, 1), executors=8)
    )
    assert "it must divide 128, the number of key groups, as 8 and 16 do" in str(
        recommended(partitions=10)
    )


@pytest.mark.parametrize(
    ("ratio", "executors", "said"),
    [(0.95, 8, True), (0.9, 5, True), (0.89, 8, False), (None, 8, False), (2.0, 4, False)],
)
def test_slow_batches_beside_idle_cores_are_told_of(
    ratio: float | None, executors: int, said: bool
) -> None:
    made = recommended(ratio=ratio, executors=executors, bounds=Bounds(1, 8, 1))
    words = f"R is {ratio or 0:.2f}, and stateful operators keep 8 of {2 * executors} cores busy"
    assert (words in made.reasons) is said
    assert ("R is" in str(made)) is said


KNOWN = {
    "key_groups": st.sampled_from([1, 7, 12, 97, 128, 200, 360, 2 * 1009, 32768]),
    "partitions": st.one_of(st.none(), st.integers(1, 400)),
    "rows": st.one_of(st.none(), st.integers(0, 10**9)),
    "size": st.one_of(st.none(), st.integers(0, 2**40)),
    "cores": st.integers(1, 16),
    "bounds": st.builds(Bounds, st.just(1), st.one_of(st.none(), SMALL), st.just(1)),
    "executors": st.one_of(st.none(), SMALL),
    "ratio": st.one_of(st.none(), st.floats(0, 3)),
    "rows_per_partition": st.sampled_from([1, 10_000, 1_000_000]),
}


@given(st.fixed_dictionaries(KNOWN))
def test_a_recommendation_that_is_followed_is_the_last(known: dict[str, Any]) -> None:
    made = recommended(**known)
    before = known["partitions"]
    assert made.reasons
    if not made.change:
        assert before is None or made.partitions == before
        return
    assert KeyGroups(known["key_groups"]).why_not(made.partitions) is None
    assert made.partitions >= 2 * before or 2 * made.partitions <= before
    again = recommended(**{**known, "partitions": made.partitions})
    assert (again.partitions, again.change) == (made.partitions, False)
