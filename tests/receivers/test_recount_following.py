"""What is seen of the receivers once a driver with the new number runs."""

from dataclasses import replace

import pytest

from tests.fakes import batch
from tests.in_memory.cluster import World
from tests.in_memory.driver import Kept
from tests.receivers.recounting import carry_out, starts_its_receivers


class TestWhatRuns:
    def test_a_program_that_does_not_take_its_number_is_a_failure(self, world: World) -> None:
        world.on_submit = lambda kept: (
            setattr(kept, "settings", {}),
            starts_its_receivers(kept),
        )[0]
        story = carry_out(world, 3)
        assert (story.ending, story.failed, story.after) == ("short", True, 2)
        assert story.notes == [
            "the program has started 2 receivers: it has to take their number by receiver_count, "
            "and its checkpoint folder by receiver_checkpoint"
        ]

    @pytest.mark.parametrize(
        ("there", "note"),
        [
            (0, "0 of 3 receivers run; 1 of 1 executors have come"),
            (1, "the program has started 1 receivers: it has to take their number by "),
        ],
    )
    def test_one_that_has_started_none_may_do_so_yet(
        self, world: World, there: int, note: str
    ) -> None:
        world.on_submit = lambda kept: (
            starts_its_receivers(kept),
            setattr(kept, "receivers", (kept.receivers or ())[:there]),
        )[0]
        story = carry_out(world, 3)
        assert (story.ending, story.after) == ("short", there)
        assert [each.startswith(note) for each in story.notes] == [True]

    def test_receivers_that_come_one_after_the_other_are_waited_for(self, world: World) -> None:
        """No batch is through: there may be more of them."""
        looks = []

        def one_more(kept: Kept) -> None:
            kept.drained = True
            if kept.driver.epoch == 2:
                starts_its_receivers(kept)
                kept.receivers = (kept.receivers or ())[: len(looks)]
                looks.append(1)

        world.on_look = one_more
        story = carry_out(world, 3, wait=60)
        assert (story.ending, story.after) == ("changed", 3)

    def test_it_is_told_once_a_batch_is_through_and_not_waited_for(self, world: World) -> None:
        """A graph gets no other receivers than it has begun with."""

        def deaf(kept: Kept) -> None:
            kept.settings = {}
            starts_its_receivers(kept)
            kept.batches = (batch(1.0),)

        world.on_submit = deaf
        story = carry_out(world, 3, wait=3600.0)
        assert (story.ending, story.after) == ("short", 2)
        assert story.notes[0].startswith("the program has started 2 receivers: it has to take")

    def test_receivers_that_do_not_come_are_a_failure(self, world: World) -> None:
        def one_is_missing(kept: Kept) -> None:
            starts_its_receivers(kept)
            first, *others = kept.receivers or ()
            others = [replace(each, error="refused once") for each in others]
            kept.receivers = (replace(first, executor=None, error="refused"), *others)

        world.on_submit = one_is_missing
        story = carry_out(world, 3)
        assert (story.ending, story.after) == ("short", 2)
        assert story.notes == [
            "2 of 3 receivers run; 1 of 1 executors have come",
            "receiver 0 last failed of: refused",
        ]

    def test_what_can_t_be_told_is_no_failure_and_no_success(self, world: World) -> None:
        def untold(kept: Kept) -> None:
            starts_its_receivers(kept)
            kept.receivers = None

        world.on_submit = untold
        story = carry_out(world, 3)
        assert (story.ending, story.failed, story.after) == ("not known", False, None)
        assert story.notes == ["it can't be told how many receivers run"]

    def test_those_that_take_a_while_are_waited_for(self, world: World) -> None:
        looks = []

        def slow(kept: Kept) -> None:
            kept.drained = True
            looks.append(kept.driver.epoch)
            if kept.driver.epoch == 2:
                kept.receivers = ()
                if looks.count(2) > 3:
                    starts_its_receivers(kept)

        world.on_look = slow
        assert carry_out(world, 3, wait=60).ending == "changed"
