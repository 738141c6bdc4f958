"""More executors that did not help: taken back, not tried again for a while, and tried again."""

from dataclasses import dataclass

import pytest

from dagster_sparkscale.autoscale import rescale
from dagster_sparkscale.clusters.records.leases import steer
from dagster_sparkscale.clusters.records.steering import EFFECT, resumed
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.in_force.steering import in_force
from dagster_sparkscale.observe.status import StageTimes, TaskTimes
from tests.fakes import batch, scaled
from tests.in_memory.cluster import MemoryCluster
from tests.in_memory.driver import Kept
from tests.watch.deployment import Deployment, Tick, overload

STREAM = scaled(max_executors=6, min_gain=0.1)
SKEWED = TaskTimes(
    60.0,
    stages=tuple(
        StageTimes(8, 15_000, 24_000, 0, 1300, 14_900, 3, str(number), 2, 16_200)
        for number in range(4)
    ),
)


@dataclass
class Story:
    """A stream whose batches take as long as a test says, minute by minute."""

    clock: list[float]
    stream: Stream = STREAM

    def __post_init__(self) -> None:
        self.deployed = Deployment([self.stream])
        self.kept: Kept = overload(self.deployed, self.stream, executors=4, tasks=SKEWED)

    def minute(self, seconds: float = 16, records: int = 1000) -> Tick:
        """A minute of batches that took so long on the executors that are there."""
        self.clock[0] += 60
        self.kept.batches = tuple(
            batch(seconds, ago=ago, now=self.clock[0], records=records, executors=self.on)
            for ago in (53, 37, 21, 5)
        )
        return self.deployed.tick()

    @property
    def on(self) -> int:
        return self.kept.registered

    def carried_out(self, tick: Tick) -> str:
        """Carry out the one run that is asked for, and have its executors come or go."""
        (request,) = tick.requests
        assert self.deployed.run(request).success
        self.kept.registered = self.kept.requested
        return tick.decided()

    def scaled_up(self) -> None:
        """The stream has gone from 4 executors to 6, which have been there for a minute."""
        assert self.carried_out(self.minute()).startswith("scale to 6: 4 registered -> 6: R 1.60")
        waiting = self.minute().decided()
        assert "it is not known yet what more executors brought: they have to be there" in waiting


def test_more_executors_without_effect_are_undone_held_and_tried_again(clock) -> None:
    story = Story(clock)
    story.scaled_up()

    undone = story.carried_out(story.minute())
    assert undone == (
        "scale to 4: 6 executors brought 0% of what they should over 4: 62.5 -> 62.5 records per "
        "second of processing, R 1.60 -> 1.60; the data is skewed: the longest of 8 tasks of a "
        "stage took 14.9 s, 11.5 times the median, and it is always that of partition 3; no more "
        "than 4 for 1 h"
    )
    held = story.minute()
    assert not held.requests
    assert "4 executors are the maximum (bounds of at most 4 executors set by the " in (
        held.decided()
    )
    assert "the data is skewed" in held.decided()
    assert not held.checks()["below_maximum"]

    clock[0] += 3600
    assert story.minute().decided().startswith("scale to 6: 4 registered -> 6: R 1.60")


def test_what_bounds_the_executors_is_seen_as_the_autoscalers_own(clock) -> None:
    story = Story(clock)
    story.scaled_up()
    story.carried_out(story.minute())
    record = story.deployed.world.cluster.store().read(STREAM.name)
    assert record is not None
    entry = record.steering[EFFECT]
    assert (entry.maximum, entry.until, entry.since) == (4, clock[0] + 3600, clock[0])
    (seen,) = in_force(record, STREAM, clock[0]).entries
    assert (seen.kind, seen.source) == ("bounds", "autoscaler")


def test_a_person_ends_what_the_autoscaler_has_set(clock) -> None:
    story = Story(clock)
    story.scaled_up()
    story.carried_out(story.minute())
    store, now = story.deployed.world.cluster.store(), clock[0]
    steer(store, "clicks", lambda found: resumed(found, [EFFECT], "ann", "mended", now, now))
    assert story.minute().decided().startswith("scale to 6: 4 registered -> 6: R 1.60")


def test_what_the_autoscaler_has_set_binds_no_person(clock) -> None:
    story = Story(clock)
    story.scaled_up()
    story.carried_out(story.minute())
    assert story.deployed.by_hand("rescale", stream="clicks", target=6).success
    assert story.kept.requested == 6


def test_what_a_person_has_pinned_is_not_measured(clock) -> None:
    story = Story(clock)
    pin = {"stream": "clicks", "action": "pin", "size": 6}
    assert story.deployed.by_hand("steer", **pin).success
    assert story.carried_out(story.minute()).startswith("scale to 6: pinned to 6 by ")
    for _ in range(3):
        assert "brought" not in story.minute().decided()
    assert story.deployed.by_hand("steer", stream="clicks", action="resume").success
    assert not story.minute().requests


def test_one_that_waited_is_measured_by_what_there_was_when_it_was_asked_for(clock) -> None:
    story = Story(clock)
    assert story.minute(seconds=16).requests  # and its run has not begun
    story.carried_out(story.minute(seconds=32))
    story.minute(seconds=16)
    held = story.minute(seconds=16)  # twice as fast as right before it
    assert not held.requests and "brought" not in held.decided()


def test_executors_that_help_stay(clock) -> None:
    story = Story(clock)
    story.scaled_up()
    held = story.minute(seconds=11).decided()
    assert "6 executors are the maximum" in held and "brought" not in held
    assert not story.minute(seconds=16).requests  # it is over: the load may change again


def test_batches_of_another_size_undo_nothing_and_say_so(clock) -> None:
    story = Story(clock)
    story.scaled_up()
    held = story.minute(seconds=11, records=650)
    assert not held.requests
    assert "6 executors brought 0% to 91% of what they should over 4" in held.decided()
    assert "batches have another size, so it stays" in held.decided()


def test_nothing_is_undone_while_executors_come_or_go(clock) -> None:
    story = Story(clock)
    story.scaled_up()
    story.kept.removing = 1
    tick = story.minute()
    assert "executors come or go" in tick.decided() and not tick.requests
    story.kept.removing = 0
    assert story.minute().decided().startswith("scale to 4: ")


def test_a_new_driver_is_measured_by_nothing_of_the_last_one(clock) -> None:
    story = Story(clock)
    story.scaled_up()
    story.deployed.world.end(STREAM.name)
    story.kept = overload(story.deployed, STREAM, executors=6, tasks=SKEWED)
    assert "brought" not in story.minute().decided()


def test_without_a_least_gain_nothing_is_measured(clock) -> None:
    story = Story(clock, scaled(max_executors=6))
    story.carried_out(story.minute())
    for _ in range(3):
        held = story.minute()
        assert not held.requests and "brought" not in held.decided()


@pytest.mark.parametrize("cut_off", ["before it asks", "while it follows"])
def test_a_run_that_is_cut_off_goes_back_or_the_next_one_does(
    clock, monkeypatch: pytest.MonkeyPatch, cut_off: str
) -> None:
    story = Story(clock)
    story.scaled_up()
    (request,) = story.minute().requests

    def killed(*_: object, **__: object) -> None:
        raise RuntimeError("its process is gone")

    place = (MemoryCluster, "change") if cut_off == "before it asks" else (rescale, "_follow")
    monkeypatch.setattr(*place, killed)
    with pytest.raises(RuntimeError, match="its process is gone"):
        story.deployed.run(request)
    monkeypatch.undo()
    story.kept.registered = story.kept.requested
    tick = story.minute()
    if cut_off == "before it asks":
        assert story.carried_out(tick).startswith("scale to 4: ")
        tick = story.minute()
    assert not tick.requests and story.kept.requested == 4
    assert "4 executors are the maximum (bounds of at most 4 " in tick.decided()
