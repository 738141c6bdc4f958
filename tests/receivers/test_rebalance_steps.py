"""The steps of moving receivers: each asked for under the lease, and waited for without it."""

import time
from typing import Any

import pytest

from dagster_sparkscale.clusters.errors import (
    AgentUnreachable,
)
from tests.in_memory.cluster import MemoryAgent, World
from tests.in_memory.driver import Kept, arrive
from tests.receivers.rebalancing import STREAM, carry_out, moved, three_executors
from tests.receivers.streams import spread_over


@pytest.fixture
def world() -> World:
    return three_executors()


class TestSteps:
    def test_each_says_whose_it_is_and_waits_as_long_as_was_asked_for(self, world: World) -> None:
        world.leased.clear()
        before = time.monotonic()
        story = carry_out(world, lease_wait=7.0)
        assert story.seconds is not None and 0 <= story.seconds <= time.monotonic() - before
        assert world.leased == [("the test", 7.0)] * 2, "one move, and nothing more to do"

    def test_no_more_moves_than_receivers(self) -> None:
        """Though something puts them back each time."""
        world = World()
        first = spread_over(world, STREAM, (3, 0)).receivers

        def put_back(kept: Kept) -> None:
            if any(each.moving_to is not None for each in kept.receivers or ()):
                arrive(kept)
            else:
                kept.receivers = first

        world.on_look = put_back
        story = carry_out(world)
        assert (len(moved(world)), len(story.moved), story.ending) == (3, 3, "moved")

    def test_what_can_not_be_begun_yet_is_asked_for_again(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        move, refusals = MemoryAgent.change, [1, 2, 3]

        def not_yet(agent: MemoryAgent, *given: Any, **how: Any) -> Any:
            if refusals:
                refusals.pop()
                raise AgentUnreachable("timed out")
            return move(agent, *given, **how)

        monkeypatch.setattr(MemoryAgent, "change", not_yet)
        assert carry_out(world).ending == "moved"

    def test_but_not_for_ever(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        def never(*_: object, **__: object) -> None:
            asked.append(1)
            raise AgentUnreachable("timed out")

        asked: list[int] = []
        monkeypatch.setattr(MemoryAgent, "change", never)
        monkeypatch.setattr("dagster_sparkscale.receivers.rebalance.ASK_SECONDS", 0.0)
        with pytest.raises(AgentUnreachable, match="timed out"):
            carry_out(world)
        assert asked == [1] and world.leases == set()

    def test_a_driver_that_another_one_has_followed_meanwhile_is_gone(self, world: World) -> None:
        def restarts(kept: Kept) -> None:
            if moved(world) and kept.driver.epoch == 1:
                world.end("clicks")
                world.run(STREAM)

        world.on_look = restarts
        story = carry_out(world, wait=60)
        assert (story.ending, story.failed) == ("gone", True)

    def test_so_is_one_of_which_nothing_is_known_any_more(self, world: World) -> None:
        def forgotten(kept: Kept) -> None:
            if moved(world):
                kept.reachable = False
                world.records.pop("clicks", None)

        world.on_look = forgotten
        assert carry_out(world, wait=60).ending == "gone"

    def test_a_receiver_that_is_not_told_of_any_more_runs_nowhere(self, world: World) -> None:
        world.on_look = lambda kept: setattr(kept, "receivers", ()) if moved(world) else None
        story = carry_out(world)
        assert (story.ending, story.receivers_after) == ("not moved", 0)
        assert story.notes == ["receiver 2 was sent to executor 2, and runs nowhere still"]

    def test_where_it_runs_is_told_though_the_driver_tells_no_moves(self, world: World) -> None:
        def elsewhere(kept: Kept) -> None:
            arrive(kept, elsewhere="1")
            kept.relaunches = ()

        world.on_look = elsewhere
        story = carry_out(world)
        assert (story.ending, story.notes) == (
            *("not moved", ["receiver 2 was sent to executor 2, and runs on 1 still"]),
        )

    def test_nor_is_one_taken_for_moved_that_is_on_its_way_untold(self, world: World) -> None:
        world.on_look = lambda kept: setattr(kept, "relaunches", ())
        story = carry_out(world)
        assert (story.ending, story.moved[0].to_executor) == ("not moved", None)
        assert story.notes == ["receiver 2 was sent to executor 2, and runs nowhere still"]
