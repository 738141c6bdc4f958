"""A rescale tells what became of receivers: which went where, for how long, and whether all are
back."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import dagster as dg
import pytest

from dagster_sparkscale.autoscale import rescale as module
from dagster_sparkscale.autoscale.rescale import Rescaled, RescaleRequest, rescale
from dagster_sparkscale.clusters.records.overtaking import Requester
from dagster_sparkscale.clusters.requests import Refused
from dagster_sparkscale.names import STORY
from dagster_sparkscale.observe.status import Relaunch
from tests.in_memory.cluster import World
from tests.in_memory.driver import Kept
from tests.receivers.streams import counting, on, receiving, spread_over
from tests.watch.deployment import Deployment, failure_of

STREAM = receiving()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_POLL", 0)


def evacuates(kept: Kept) -> None:
    """As a driver does that goes down to two executors of five: [3, 2]."""
    if kept.requested == 2 and kept.registered <= 3:
        kept.executors, kept.receivers = on((3, 2))
        kept.relaunches = tuple(
            Relaunch(id, "evacuation", str(id), 100.0 + id, place, place, 1.25)
            for id, place in ((2, "0"), (3, "1"), (4, "0"))
        )


def loses_one(kept: Kept) -> None:
    evacuates(kept)
    if kept.relaunches and kept.relaunches[-1].to_executor is not None and kept.receivers:
        first, *others = kept.receivers
        kept.receivers = (replace(first, executor=None, error="no route"), *others)
        *before, last = kept.relaunches
        kept.relaunches = (*before, replace(last, to_executor=None, away_seconds=None))


@pytest.fixture
def five() -> World:
    """The example of the design document: five executors of four cores with a receiver each."""
    world = World()
    spread_over(world, STREAM, (1, 1, 1, 1, 1))
    return world


def carry_out(
    world: World, target: int, look: Callable[[Kept], None], stream: Any = STREAM, **fields: Any
) -> Rescaled:
    world.on_look = look
    request = RescaleRequest("clicks", target=target, **{"wait": 60.0, **fields})
    return rescale(world.cluster, stream, request, Requester("the test"))


def test_the_worked_example_down_to_two(five: World) -> None:
    story = carry_out(five, 2, evacuates)
    assert (story.ending, story.failed) == ("reached", False)
    assert (story.receivers_before, story.receivers_after, story.spread_after) == (5, 5, "[3, 2]")
    assert [(each.stream_id, each.to_executor) for each in story.relaunches] == [
        *((2, "0"), (3, "1"), (4, "0")),
    ]


def test_the_fewest_executors_are_those_on_which_they_fit(five: World) -> None:
    with pytest.raises(Refused, match="'clicks' has a minimum of 2"):
        carry_out(five, 1, evacuates)


def test_as_many_more_receivers_need_more(five: World) -> None:
    stream = counting(2)
    now = five.records["clicks"]
    five.records["clicks"] = replace(now, receivers=6, revision=now.revision + 1)
    with pytest.raises(Refused, match="'clicks' has a minimum of 2"):
        carry_out(five, 1, evacuates, stream)


def test_what_was_away_before_is_not_told_again(five: World) -> None:
    kept = five.streams["clicks"]
    kept.relaunches = (Relaunch(0, "executor lost", "9", 50.0, "0", away_seconds=3.0),)
    story = carry_out(five, 6, lambda kept: None)
    assert (story.ending, story.relaunches) == ("reached", ())


def test_one_that_does_not_come_back_is_waited_for_and_then_a_failure(five: World) -> None:
    story = carry_out(five, 2, loses_one, wait=0.05)
    assert (story.ending, story.failed) == ("receivers missing", True)
    assert (story.receivers_before, story.receivers_after) == (5, 4)
    assert story.notes == [
        "4 of 5 receivers run: not all have come back",
        "receiver 0 runs nowhere; it last failed of: no route",
    ]


def test_one_that_comes_back_late_is_none(five: World) -> None:
    looks = []

    def late(kept: Kept) -> None:
        looks.append(1)
        loses_one(kept) if len(looks) < 9 else evacuates(kept)

    story = carry_out(five, 2, late)
    assert (story.ending, story.receivers_after) == ("reached", 5)


def test_receivers_of_which_nothing_is_told_fail_nothing(five: World) -> None:
    five.streams["clicks"].receivers = None
    story = carry_out(five, 6, lambda kept: None)
    assert (story.ending, story.failed, story.receivers_before) == ("reached", False, None)


def test_a_newer_target_fails_nothing_either(five: World) -> None:
    def overtaken(kept: Kept) -> None:
        loses_one(kept)
        if kept.registered == 3:
            kept.requested = 4

    story = carry_out(five, 2, overtaken)
    assert (story.ending, story.failed) == ("superseded", False)


class TestRun:
    def deployed(self, look: Callable[[Kept], None]) -> Deployment:
        it = Deployment([STREAM])
        spread_over(it.world, STREAM, (1, 1, 1, 1, 1))
        it.world.on_look = look
        return it

    def story(self, it: Deployment) -> tuple[str, dict[str, Any]]:
        record = it.instance.fetch_observations(dg.AssetKey("clicks"), limit=1).records[0]
        found = record.asset_observation
        assert found is not None
        return found.description or "", dict(found.metadata[STORY].value)  # type: ignore[call-overload]

    def test_its_page_says_which_went_where_and_how_long_each_was_away(self) -> None:
        it = self.deployed(evacuates)
        assert it.by_hand("rescale", stream="clicks", target=2).success
        line, story = self.story(it)
        assert line.partition("; ")[2].partition("; pinned to 2 ")[0] == (
            "receivers [3, 2]: receiver 2: executor 2 -> executor 0 (evacuation, away for 1.25 s); "
            "receiver 3: executor 3 -> executor 1 (evacuation, away for 1.25 s); "
            "receiver 4: executor 4 -> executor 0 (evacuation, away for 1.25 s)"
        )
        assert (story["receivers_before"], story["receivers_after"]) == (5, 5)
        assert story["receivers_of_executors"] == "[3, 2]"
        assert story["relaunches"][0] == {
            "receiver": 2,
            "cause": "evacuation",
            "from_executor": "2",
            "to_executor": "0",
            "sent_to": "0",
            "away_seconds": 1.25,
        }

    def test_it_fails_where_one_does_not_come_back_and_tells_its_story(self) -> None:
        it = self.deployed(loses_one)
        result = it.by_hand("rescale", stream="clicks", target=2, wait_seconds=1)
        said = failure_of(result)
        assert "receivers missing after" in said
        assert said.endswith("receiver 0 runs nowhere; it last failed of: no route")
        line, story = self.story(it)
        assert (line, story["ending"]) == (said, "receivers missing")

    def test_of_a_stream_without_receivers_nothing_is_said_of_them(self) -> None:
        it = Deployment([STREAM])
        it.world.run(STREAM, executors=2)
        it.by_hand("rescale", stream="clicks", target=3)
        line, story = self.story(it)
        assert "receivers" not in line and "relaunches" not in story
