"""Receivers are moved: what is refused, what is asked of the driver, and what came of it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import (
    AgentRefused,
    OperationInProgress,
    Overtaken,
    StaleEpoch,
)
from dagster_sparkscale.clusters.records.leases import steer
from dagster_sparkscale.clusters.records.steering import Steered
from dagster_sparkscale.clusters.requests import Refused
from dagster_sparkscale.observe.receivers import in_words
from dagster_sparkscale.observe.status import Receiver, Relaunch
from dagster_sparkscale.receivers.rebalance import Rebalanced
from tests.fakes import structured
from tests.in_memory.cluster import World
from tests.in_memory.driver import Kept, arrive
from tests.receivers.rebalancing import STREAM, carry_out, moved, three_executors
from tests.receivers.streams import receiving, spread_over


@pytest.fixture
def world() -> World:
    return three_executors()


class TestBalancing:
    def test_the_worked_example_takes_one_move(self, world: World) -> None:
        lines: list[str] = []
        story = carry_out(world, lines=lines)
        assert moved(world) == ["move clicks 2 2"]
        assert (story.ending, story.spread_before, story.spread_after) == (
            *("moved", "[3, 2, 0]", "[2, 2, 1]"),
        )
        assert (story.receivers_before, story.receivers_after) == (5, 5)
        [one] = story.moved
        assert (one.stream_id, one.from_executor, one.to_executor, one.away_seconds) == (
            *(2, "0", "2", 1.5),
        )
        assert lines == [
            "before: receivers of executors [3, 2, 0]",
            "moving receiver 2 from executor 0 to 2",
            "receiver 2: executor 0 -> executor 2 (move, away for 1.50 s)",
        ]

    def test_what_is_balanced_is_left_alone(self, world: World) -> None:
        carry_out(world)
        story = carry_out(world)
        assert (story.ending, story.moved, len(moved(world))) == ("balanced", [], 1)

    def test_what_is_not_balanced_for_want_of_a_core_is_not_called_balanced(self) -> None:
        full = World(on_look=arrive)
        spread_over(full, STREAM, (4, 0))
        kept = full.streams["clicks"]
        kept.executors = tuple(replace(each, cores=0) for each in kept.executors)
        story = carry_out(full)
        assert (moved(full), story.ending) == ([], "balanced")
        [note] = story.notes
        assert note.startswith("receivers of executors [4, 0] are not balanced, but no executor")

    def test_each_move_is_decided_on_what_is_so_by_then(self) -> None:
        world = World()
        kept = spread_over(world, STREAM, (5, 0, 0))

        def third_goes(kept: Kept) -> None:
            arrive(kept)
            if moved(world):
                kept.executors, kept.registered, kept.requested = kept.executors[:2], 2, 2

        world.on_look = third_goes
        story = carry_out(world)
        assert moved(world) == ["move clicks 4 1", "move clicks 3 1"]
        assert story.spread_after == "[3, 2]"
        assert kept.registered == 2

    def test_it_is_asked_for_under_the_lease_and_waited_for_without(self, world: World) -> None:
        held = []

        def looks(kept: Kept) -> None:
            held.append((any(each.moving_to for each in kept.receivers or ()), world.leases))
            arrive(kept)

        world.on_look = looks
        carry_out(world)
        assert [leases for moving, leases in held if moving] == [set()]
        assert world.numbers == [world.records["clicks"].operations - 1], "one lease a move"

    def test_two_at_once_are_not(self, world: World) -> None:
        with world.cluster.lease("clicks", "somebody"), pytest.raises(OperationInProgress):
            carry_out(world, lease_wait=0)
        assert moved(world) == []


class TestByHand:
    def test_a_receiver_goes_where_it_is_sent(self, world: World) -> None:
        story = carry_out(world, receiver=0, executor="1")
        assert moved(world) == ["move clicks 0 1"]
        assert (story.ending, story.spread_after) == ("moved", "[3, 2, 0]")

    def test_one_that_is_there_stays(self, world: World) -> None:
        story = carry_out(world, receiver=0, executor="0")
        assert story.ending == "balanced"
        assert story.notes == ["receiver 0 runs on executor 0 already"]
        assert moved(world) == []

    def test_one_that_runs_nowhere_is_sent_too(self, world: World) -> None:
        kept = world.streams["clicks"]
        kept.receivers = (Receiver(0), *(kept.receivers or ())[1:])
        story = carry_out(world, receiver=0, executor="1")
        assert (story.ending, story.moved[0].from_executor) == ("moved", None)
        assert in_words(story.moved[0]).startswith("receiver 0: nowhere -> executor 1")

    @pytest.mark.parametrize(
        ("asked", "said"),
        [
            ({"receiver": 1}, "executor: missing; give receiver and executor, or neither"),
            ({"executor": "1"}, "receiver: missing; give receiver and executor, or neither"),
            (
                {"receiver": 9, "executor": "1"},
                "receiver = 9: there is no such receiver; there is 0, 1, 2, 3, 4",
            ),
            (
                {"receiver": 1, "executor": "9"},
                "executor = '9': there is no such executor; there is '0', '1', '2'",
            ),
        ],
    )
    def test_what_makes_no_sense_is_refused(
        self, world: World, asked: dict[str, Any], said: str
    ) -> None:
        with pytest.raises(Refused) as refused:
            carry_out(world, **asked)
        assert str(refused.value).startswith(said)

    def test_it_says_where_there_is_none(self, world: World) -> None:
        kept = world.streams["clicks"]
        kept.executors = ()
        with pytest.raises(Refused, match=r"there is no such executor; there is none$"):
            carry_out(world, receiver=1, executor="9")
        kept.receivers = ()
        with pytest.raises(Refused, match=r"there is no such receiver; there is none$"):
            carry_out(world, receiver=1, executor="9")

    def test_where_they_are_is_to_be_known(self, world: World) -> None:
        world.streams["clicks"].receivers = None
        with pytest.raises(Refused, match="it can't be told where receivers run"):
            carry_out(world, receiver=0, executor="1")

    def test_what_the_driver_refuses_is_told(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_args: object, **_more: object) -> None:
            raise AgentRefused("executor 1 has no core free")

        monkeypatch.setattr("tests.in_memory.cluster.MemoryAgent.change", full)
        with pytest.raises(AgentRefused, match="executor 1 has no core free"):
            carry_out(world, receiver=0, executor="1")


class TestNotNow:
    @pytest.mark.parametrize(
        "stream", [structured(), receiving().model_copy(update={"receivers": 0})]
    )
    def test_a_stream_without_receivers_has_none_to_move(self, world: World, stream: Any) -> None:
        with pytest.raises(Refused, match="'clicks' has no receivers"):
            carry_out(world, stream)

    def test_one_that_does_not_run_is_refused(self, world: World) -> None:
        world.end("clicks", DriverState.STOPPED)
        with pytest.raises(Refused, match="'clicks' is stopped: materialize"):
            carry_out(world)
        with pytest.raises(Refused, match="'clicks' is not started: materialize"):
            carry_out(World())

    def test_a_decision_on_another_driver_is_no_fault(self, world: World) -> None:
        with pytest.raises(Overtaken, match="decided for driver 7, and driver 1 is running by now"):
            carry_out(world, epoch=7, decided=True)
        with pytest.raises(StaleEpoch, match="asked for driver 7, and driver 1 is running by now"):
            carry_out(world, epoch=7)
        world.end("clicks")
        with pytest.raises(Overtaken, match="decided for driver 1, and driver 1 is failed by now"):
            carry_out(world, epoch=1, decided=True)
        with pytest.raises(Overtaken, match="none is known by now"):
            carry_out(World(), epoch=1, decided=True)

    def test_what_is_not_settled_is_left_for_later(self, world: World) -> None:
        world.on_look = lambda kept: None
        kept = world.streams["clicks"]
        kept.receivers = (Receiver(0), *(kept.receivers or ())[1:])
        with pytest.raises(Overtaken, match="receiver 0 runs nowhere at the moment"):
            carry_out(world, epoch=1, decided=True)
        with pytest.raises(Refused, match="receiver 0 runs nowhere at the moment; try again"):
            carry_out(world)
        assert moved(world) == []

    def test_what_comes_up_between_two_moves_ends_it(self) -> None:
        world = World()
        spread_over(world, STREAM, (5, 0, 0))

        def one_is_lost(kept: Kept) -> None:
            arrive(kept)
            if moved(world):
                kept.receivers = tuple(
                    replace(each, executor=None) if each.stream_id == 0 else each
                    for each in kept.receivers or ()
                )

        world.on_look = one_is_lost
        story = carry_out(world)
        assert (story.ending, len(story.moved)) == ("moved", 1)
        assert story.notes == ["no further move is decided: receiver 0 runs nowhere at the moment"]
        assert (story.receivers_before, story.receivers_after) == (5, 4)

    @pytest.mark.parametrize("decided", [True, False])
    def test_one_that_was_decided_ends_where_the_stream_is_frozen_between_two_moves(
        self, decided: bool
    ) -> None:
        world = World(on_look=arrive)
        spread_over(world, STREAM, (5, 0, 0))
        frozen = {"freeze": Steered("ann", "the sink is moved", 1.0)}

        def freeze(line: str) -> None:
            if "away for" in line:
                steer(world.cluster.store(), "clicks", lambda _: frozen)

        story = carry_out(world, tell=freeze, epoch=1, decided=decided)
        assert len(story.moved) == (1 if decided else 3) and not story.failed
        if decided:
            assert "the stream is frozen by ann until it is resumed" in story.notes[0]

    @pytest.mark.parametrize("decided", [True, False])
    def test_what_was_moved_is_told_though_its_driver_is_another_by_then(
        self, decided: bool
    ) -> None:
        world = World(on_look=arrive)
        spread_over(world, STREAM, (5, 0, 0))
        lines: list[str] = []

        def restarted(line: str) -> None:
            lines.append(line)
            if "away for" in line:
                world.end("clicks")

        story = carry_out(world, tell=restarted, epoch=1, decided=decided)
        assert (story.ending, len(story.moved), story.failed) == ("moved", 1, False)
        assert story.notes[0].startswith("no further receiver is moved: ")
        assert "failed" in story.notes[0]

    def test_a_further_one_that_can_not_be_asked_for_is_a_failure(self) -> None:
        world = World(on_look=arrive)
        kept = spread_over(world, STREAM, (5, 0, 0))

        def refusing(line: str) -> None:
            if "away for" in line:
                kept.refuses = "no"

        story = carry_out(world, tell=refusing)
        assert (story.ending, len(story.moved), story.failed) == ("not moved", 1, True)
        assert story.notes == ["no further receiver is moved: no"]


class TestWhatCameOfIt:
    def sent(self, world: World, look: Callable[[Kept], None], **asked: Any) -> Rebalanced:
        world.on_look = look
        return carry_out(world, receiver=2, executor="2", **asked)

    def test_one_that_does_not_come_back_is_a_failure(self, world: World) -> None:
        story = self.sent(world, lambda kept: None)
        assert (story.ending, story.failed, story.receivers_after) == ("not moved", True, 4)
        assert story.notes == ["receiver 2 was sent to executor 2, and runs nowhere still"]
        assert in_words(story.moved[0]) == "receiver 2: executor 0 -> runs nowhere (move)"

    def test_it_is_the_last_that_is_moved(self) -> None:
        world = World()
        spread_over(world, STREAM, (5, 0, 0))
        assert carry_out(world).failed
        assert len(moved(world)) == 1

    def test_what_it_failed_of_is_told(self, world: World) -> None:
        def fails(kept: Kept) -> None:
            kept.receivers = tuple(
                replace(each, error="connection refused") if each.moving_to else each
                for each in kept.receivers or ()
            )

        story = self.sent(world, fails)
        assert story.notes[0].endswith("still; it last failed of: connection refused")

    def test_one_that_came_up_elsewhere_is_a_failure(self, world: World) -> None:
        story = self.sent(world, lambda kept: arrive(kept, elsewhere="1"), wait=60)
        assert (story.ending, story.spread_after) == ("not moved", "[3, 2, 0]")
        assert story.notes == ["receiver 2 was sent to executor 2, and runs on 1"]
        assert in_words(story.moved[0]) == (
            "receiver 2: executor 0 -> executor 1 (move, sent to 2, away for 1.50 s)"
        )

    def test_what_another_operation_has_moved_is_not_taken_for_it(self, world: World) -> None:
        kept = world.streams["clicks"]
        kept.relaunches = (
            Relaunch(2, "move", "0", 1.0, "1", wanted="1", away_seconds=9.0, operation=99),
        )
        story = carry_out(world, receiver=2, executor="2")
        assert (story.ending, story.moved[0].away_seconds) == ("moved", 1.5)

    def test_a_driver_that_tells_no_seconds_is_believed_where_the_receiver_is(
        self, world: World
    ) -> None:
        def silent(kept: Kept) -> None:
            arrive(kept)
            kept.relaunches = ()

        story = self.sent(world, silent)
        assert (story.ending, story.moved[0].away_seconds) == ("moved", None)
        assert in_words(story.moved[0]) == (
            "receiver 2: executor 0 -> executor 2 (move; for how long it was away is not known)"
        )

    def test_a_driver_that_ends_meanwhile_is_a_failure(self, world: World) -> None:
        def ends(kept: Kept) -> None:
            if moved(world):
                world.end("clicks")

        story = self.sent(world, ends, wait=60)
        assert (story.ending, story.failed) == ("gone", True)
        assert story.notes == ["the driver ended while a receiver was on its way"]

    def test_an_agent_that_is_silent_for_a_while_is_waited_for(self, world: World) -> None:
        looks = []

        def silent(kept: Kept) -> None:
            if moved(world):
                looks.append(1)
                kept.reachable = len(looks) > 3
            if kept.reachable:
                arrive(kept)

        assert self.sent(world, silent, wait=60).ending == "moved"
        assert len(looks) == 4
