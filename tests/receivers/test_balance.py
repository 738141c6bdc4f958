"""Which receivers move where, so that they are spread evenly."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.declare.decisions import Move
from dagster_sparkscale.observe.status import Executor, Receiver
from dagster_sparkscale.receivers.balance import (
    Placement,
    moves,
    no_room,
    placement,
)
from tests.fakes import altered, status

Ids = Mapping[str, Sequence[int]]


def placed(*counts: int) -> dict[str, tuple[int, ...]]:
    """So many receivers on executors 0, 1, ..."""
    made, first = {}, 0
    for executor, count in enumerate(counts):
        made[str(executor)] = tuple(range(first, first + count))
        first += count
    return made


def after(receivers: Ids, made: Sequence[Move]) -> list[dict[str, list[int]]]:
    """Where the receivers are before the first move and after each."""
    steps = [{executor: list(ids) for executor, ids in receivers.items()}]
    for move in made:
        now = {executor: list(ids) for executor, ids in steps[-1].items()}
        now[move.from_executor].remove(move.stream_id)
        now[move.to_executor].append(move.stream_id)
        steps.append(now)
    return steps


def counts(step: Ids) -> list[int]:
    return sorted(map(len, step.values()), reverse=True)


PLENTY = {str(n): 100 for n in range(10)}

layouts = st.lists(st.integers(0, 8), min_size=1, max_size=8).map(lambda each: placed(*each))
cores = st.lists(st.integers(0, 6), min_size=8, max_size=8).map(
    lambda each: {str(n): free for n, free in enumerate(each)}
)


class TestMoves:
    def test_the_worked_example_of_the_design_document(self) -> None:
        """[3, 2, 0]: N_avg is 1.67, and 3 >= 2.67; then 2 < 2.67."""
        there = placed(3, 2, 0)
        assert moves(there, PLENTY) == (Move(2, "0", "2"),)
        assert counts(after(there, moves(there, PLENTY))[-1]) == [2, 2, 1]

    @pytest.mark.parametrize(
        "there", [(2, 2, 1), (1,), (7,), (3, 2), (1, 1, 1, 1, 1), (0, 0), (1, 0), (2, 1, 1)]
    )
    def test_what_is_balanced_stays(self, there: tuple[int, ...]) -> None:
        assert moves(placed(*there), PLENTY) == ()

    def test_no_executor_no_move(self) -> None:
        assert moves({}, {}) == ()

    @pytest.mark.parametrize(
        ("there", "end", "how_many"),
        [((4, 0), [2, 2], 2), ((5, 0, 0), [2, 2, 1], 3), ((2, 0), [1, 1], 1), ((6, 3), [5, 4], 1)],
    )
    def test_they_move_until_no_executor_has_one_more_than_the_average(
        self, there: tuple[int, ...], end: list[int], how_many: int
    ) -> None:
        made = moves(placed(*there), PLENTY)
        assert (counts(after(placed(*there), made)[-1]), len(made)) == (end, how_many)

    def test_one_without_a_core_gets_none_and_the_next_does(self) -> None:
        there = placed(4, 1, 0)
        assert moves(there, {"1": 1, "2": 0}) == (Move(3, "0", "1"),)
        assert moves(there, {"0": 5}) == ()

    def test_a_move_that_brings_nothing_nearer_is_not_made(self) -> None:
        # 2 is above the average by one, and the only one with a core has one less.
        assert moves(placed(2, 1, 0, 0), {"1": 3}) == ()

    @pytest.mark.parametrize(
        ("there", "free", "stuck"),
        [
            ((3, 0), {"1": 0}, True),
            ((3, 0), {"1": 1}, False),
            ((2, 1, 0, 0), {"1": 3}, True),
            ((2, 1), {}, False),
            ((2, 0), {}, True),  # exactly one more than the average
            ((0, 0), {}, False),
            ((), {}, False),
        ],
    )
    def test_what_stays_unbalanced_for_want_of_a_core_says_so(
        self, there: tuple[int, ...], free: dict[str, int], stuck: bool
    ) -> None:
        why = no_room(Placement(placed(*there), free))
        assert (why is not None) == stuck
        if why is not None:
            assert why.startswith(f"receivers of executors {list(there)} are not balanced, but no")

    @given(layouts, cores)
    def test_each_move_is_one_that_is_called_for(self, there: Ids, free: dict[str, int]) -> None:
        total, room = sum(map(len, there.values())), dict(free)
        made = moves(there, free)
        for before, move in zip(after(there, made), made, strict=False):
            most = max(map(len, before.values()))
            assert len(before[move.from_executor]) == most >= 1 + total / len(there)
            assert room[move.to_executor] > 0
            fewest = min(len(ids) for executor, ids in before.items() if room[executor] > 0)
            assert len(before[move.to_executor]) == fewest
            room[move.to_executor] -= 1
            room[move.from_executor] += 1

    @given(layouts, cores)
    def test_the_spread_never_gets_worse_and_no_receiver_is_lost(
        self, there: Ids, free: dict[str, int]
    ) -> None:
        everyone = sorted(id for ids in there.values() for id in ids)
        spreads = []
        for step in after(there, moves(there, free)):
            assert sorted(id for ids in step.values() for id in ids) == everyone
            spreads.append(max(map(len, step.values())) - min(map(len, step.values())))
        assert spreads == sorted(spreads, reverse=True)

    @given(layouts, cores)
    def test_asked_again_it_moves_none(self, there: Ids, free: dict[str, int]) -> None:
        made, room = moves(there, free), dict(free)
        for move in made:
            room[move.to_executor] -= 1
            room[move.from_executor] += 1
        assert moves(after(there, made)[-1], room) == ()

    @given(layouts, cores)
    def test_fewer_moves_do_not_lead_there(self, there: Ids, free: dict[str, int]) -> None:
        made = moves(there, free)
        end = after(there, made)[-1]
        assert len(made) == sum(max(0, len(ids) - len(end[each])) for each, ids in there.items())
        assert len({move.stream_id for move in made}) == len(made), "none moves twice"

    @given(layouts)
    def test_with_cores_for_all_it_ends_balanced(self, there: Ids) -> None:
        end = after(there, moves(there, PLENTY))[-1]
        total = sum(map(len, there.values()))
        assert all(len(ids) < 1 + total / len(there) for ids in end.values())


def executors(*cores: int) -> tuple[Executor, ...]:
    return tuple(Executor(str(n), "host", each) for n, each in enumerate(cores))


THREE = status(
    registered=3,
    executors=executors(4, 4, 2),
    receivers=tuple(
        Receiver(id, executor=executor) for id, executor in enumerate(["0", "0", "1", "2", "2"])
    ),
)


def why_not(**fields: object) -> str:
    found = placement(altered(THREE, **fields), 1)
    assert isinstance(found, str)
    return found


class TestPlacement:
    def test_where_they_are_and_what_is_free_for_more(self) -> None:
        found = placement(THREE, 1)
        ids = {"0": (0, 1), "1": (2,), "2": (3, 4)}
        assert found == Placement(ids, {"0": 2, "1": 3, "2": 0})
        assert isinstance(found, Placement) and found.in_words == "[2, 2, 1]"

    def test_a_receiver_takes_as_many_cores_as_a_task(self) -> None:
        cores = altered(THREE, executors=executors(5, 5, 2))
        found = placement(cores, 2)
        assert isinstance(found, Placement)
        assert found.free == {"0": 0, "1": 1, "2": 0}

    def test_an_executor_whose_cores_are_not_known_gets_none(self) -> None:
        found = placement(altered(THREE, executors=executors(0, 4, 2)), 1)
        assert isinstance(found, Placement) and found.free["0"] == 0

    def test_a_receiver_on_its_way_is_waited_for(self) -> None:
        moving = Receiver(0, moving_to="2")
        assert why_not(receivers=(moving,)) == "receiver 0 is on its way to executor 2"

    def test_one_that_runs_nowhere_is_waited_for(self) -> None:
        said = "receiver 7 runs nowhere at the moment"
        assert why_not(receivers=(*(THREE.receivers or ()), Receiver(7))) == said

    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            ({"receivers": None}, "it can't be told where its receivers run"),
            ({"removing": 1}, "executors are leaving (1)"),
            ({"registered": None}, "its executors are not known"),
            ({"registered": 4}, "its executors are not known"),
            ({"ages": {"receivers": 31.0}}, "Spark has told nothing of its receivers of late"),
            ({"ages": {"receivers": None}}, "Spark has told nothing of its receivers of late"),
            ({"ages": {"executors": 31.0}}, "Spark has told nothing of its executors of late"),
            ({"spark_age": None}, "Spark has told nothing of its executors of late"),
            (
                {"receivers": (Receiver(0, executor="9"),)},
                "receiver 0 is told of on executor 9, which is not registered",
            ),
        ],
    )
    def test_what_is_not_known_is_not_decided_on(
        self, fields: dict[str, object], said: str
    ) -> None:
        assert why_not(**fields) == said

    def test_what_was_seen_of_late_is(self) -> None:
        ages = {"receivers": 30.0, "executors": 30.0}
        assert isinstance(placement(altered(THREE, ages=ages, spark_age=30.0), 1), Placement)
