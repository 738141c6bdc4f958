"""What the sensors of one cluster remember of streams that come to another of them."""

import time

import dagster as dg
import pytest

from dagster_sparkscale.observe.history import history
from dagster_sparkscale.watch import tick as tick_module
from dagster_sparkscale.watch.memory import Memory
from dagster_sparkscale.watch.process import UNREAD
from tests.fakes import scaled
from tests.watch.deployment import Deployment, overload
from tests.watch.test_shards import Sharded, running


def reloaded(before: Sharded, shards: int) -> Sharded:
    """The code location was loaded anew, with so many shards."""
    return Sharded(
        before.streams,
        shards,
        world=before.world,
        instance=before.instance,
        cursors=before.cursors,
    )


def minutes(made: Sharded) -> dict[str, set[int]]:
    """All that is known of each stream, stored or not."""
    found: dict[str, set[int]] = {}
    for stream in made.streams:
        known = Memory.load(made.cursors.get(made.shard(stream.name))).of(stream.name)
        stored = history(made.instance, dg.AssetKey([stream.name]), 0, time.time() + 1)
        found[stream.name] = {minute.at for minute in (*stored, *known.minutes)}
    return found


def seen_twice(cursors: dict[str, str | None], clock: list[float]) -> Sharded:
    """Twelve streams of one sensor, which has ticked twice."""
    made = running(12, 1, cursors=cursors)
    for _ in range(2):
        made.tick("autoscaler")
        clock[0] += 60
    return made


def locked(*_: object) -> dict[str, str]:
    raise OSError("database is locked")


def test_a_tick_that_dagster_drops_costs_no_minute_of_a_stream_that_has_come(
    cursors: dict[str, str | None], clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = seen_twice(cursors, clock)
    before = minutes(made)
    made = reloaded(made, 3)
    first, other, third = made.names
    with monkeypatch.context() as dropped:
        dropped.setattr(made.instance, "report_runless_asset_event", lambda event: None)
        made.tick(other)
        del cursors[other]
    made.tick(first)  # which has forgotten the others' streams
    for _ in range(3):
        clock[0] += 60
        made.tick(other)
        made.tick(third)
        after = minutes(made)
        for name in before:
            assert before[name] <= after[name]
            assert made.shard(name) == first or int(clock[0]) in after[name]


def test_while_it_cannot_be_read_nothing_is_forgotten(
    cursors: dict[str, str | None], clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = seen_twice(cursors, clock)
    before = minutes(made)
    made = reloaded(made, 3)
    with monkeypatch.context() as broken:
        broken.setattr(tick_module, "sensor_cursors", locked)
        tick = made.tick("autoscaler")
        text = tick.data.skip_message
        assert "other sensors' cursors can't be read: OSError: database is locked" in text
    failed_at = int(clock[0])
    clock[0] += 60
    for name in made.names:
        made.tick(name)
    after = minutes(made)
    for name in before:
        seen = {int(clock[0])} | ({failed_at} if made.shard(name) == "autoscaler" else set())
        assert after[name] == before[name] | seen


@pytest.mark.parametrize("failing", [1, UNREAD])
def test_of_a_new_stream_nothing_is_decided_twice_or_lost_meanwhile(
    failing: int,
    cursors: dict[str, str | None],
    clock: list[float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deployed = Deployment([scaled("clicks", interval="10 min", max_executors=40)])
    overload(deployed, deployed.streams[0])
    began = int(clock[0])
    with monkeypatch.context() as broken:
        broken.setattr(tick_module, "sensor_cursors", locked)
        ticks = deployed.passing(failing, clock)
        assert [tick.told() for tick in ticks] == [[]] * failing
    ticks += deployed.passing(2, clock)
    assert [len(tick.requests) for tick in ticks] == [1] + [0] * (failing + 1)
    stored = history(deployed.instance, dg.AssetKey(["clicks"]), 0, time.time() + 1)
    known = Memory.load(deployed.cursor).of("clicks")
    seen = [minute.at for minute in (*stored, *known.minutes)]
    assert seen == [began + 60 * number for number in range(failing + 2)]
    assert known.usage.executor_seconds == 2 * 60 * (failing + 1)


def test_after_some_ticks_a_new_stream_is_told_of_whatever_another_may_remember(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    deployed = Deployment([scaled("clicks")])
    overload(deployed, deployed.streams[0])
    monkeypatch.setattr(tick_module, "sensor_cursors", locked)
    ticks = deployed.passing(UNREAD + 1, clock)
    assert [bool(tick.told()) for tick in ticks] == [False] * UNREAD + [True]
    assert len(ticks[-1].minutes("clicks")) == UNREAD + 1
    assert "clicks" in Memory.load(deployed.cursor).streams


def test_one_that_could_not_read_them_settles_nothing(
    cursors: dict[str, str | None], clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = seen_twice(cursors, clock)
    before = minutes(made)
    made = reloaded(made, 2)
    first, other = made.names
    with monkeypatch.context() as broken:
        broken.setattr(tick_module, "sensor_cursors", locked)
        made.tick(other)  # what it stores lacks what the first one remembers
    failed_at = int(clock[0])
    made.tick(first)
    for _ in range(3):
        clock[0] += 60
        for name in made.names[::-1]:
            made.tick(name)
    after = minutes(made)
    for name in before:
        assert before[name] | {failed_at, int(clock[0])} <= after[name]


def test_of_two_sensors_that_remember_a_stream_the_later_is_right(
    cursors: dict[str, str | None], clock: list[float]
) -> None:
    made = running(12, 3, cursors=cursors)
    for name in made.names:
        made.tick(name)
    made = reloaded(made, 1)
    for _ in range(3):
        clock[0] += 60
        made.tick("autoscaler")
    before = minutes(made)
    made = reloaded(made, 3)
    clock[0] += 60
    for name in made.names:
        made.tick(name)
    after = minutes(made)
    for name in before:
        assert after[name] == before[name] | {int(clock[0])}


def test_once_it_is_stored_what_another_remembered_is_forgotten(
    cursors: dict[str, str | None], clock: list[float]
) -> None:
    made = running(12, 1, cursors=cursors)
    made.tick("autoscaler")
    made = reloaded(made, 3)
    other = made.names[1]
    for _ in range(2):
        clock[0] += 60
        made.tick(other)
    cursors[other] = None  # somebody has reset it
    clock[0] += 60
    made.tick(other)
    for name in made.evaluates(other):
        known = Memory.load(cursors[other]).of(name)
        assert known.told.at == clock[0] and not known.minutes


def test_where_the_process_ends_before_the_other_sensor_ticked_nothing_is_forgotten(
    cursors: dict[str, str | None], clock: list[float]
) -> None:
    made = running(12, 1, cursors=cursors)
    for _ in range(5):
        made.tick("autoscaler")
        clock[0] += 60
    before = minutes(made)
    made = reloaded(made, 2)
    made.tick("autoscaler")  # the other one is switched off
    clock[0] += 60
    made = reloaded(made, 2)
    for _ in range(3):  # the second tick of each finds that its first one was stored
        for name in made.names:
            made.tick(name)
        clock[0] += 60
    after = minutes(made)
    assert {name: before[name] - after[name] for name in before} == {n: set() for n in before}
    (first, other) = made.names
    kept = Memory.load(cursors[first]).streams.keys() & Memory.load(cursors[other]).streams.keys()
    assert kept == set()
