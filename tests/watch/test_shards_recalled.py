"""Since when a stream has a problem, where a cursor does not say it and the fleet's last event, or
another sensor, does. To tell of it as new would alert people twice."""

from collections.abc import Sequence

import pytest

from dagster_sparkscale.deadlines import NoAnswer
from dagster_sparkscale.names import MINUTES
from dagster_sparkscale.watch import board as board_module
from dagster_sparkscale.watch import cursor as cursor_module
from dagster_sparkscale.watch import telling
from dagster_sparkscale.watch import tick as tick_module
from dagster_sparkscale.watch.memory import Memory
from dagster_sparkscale.watch.process import UNREAD
from tests.watch.deployment import FLEET_KEY
from tests.watch.test_shards import Sharded, running
from tests.watch.test_shards_memory import locked, reloaded
from tests.watch.test_shards_problems import Cursors, a_minute, fail, failing, run_well


def without_room(cursors: Cursors, sensor: str) -> None:
    """The sensor's cursor had no room for its problems."""
    memory = Memory.load(cursors[sensor])
    memory.fleet.problems, memory.fleet.told_at = {}, 0.0
    cursors[sensor] = memory.dump({*memory.streams})


@pytest.mark.parametrize("lost", [False, True])
def test_that_another_sensor_is_silent_is_no_problem_of_a_stream(
    cursors: Cursors, clock: list[float], now: list[float], lost: bool
) -> None:
    made = failing(2, cursors)
    first, other = made.names
    a_minute(made, clock)
    now[0] += board_module.SILENT + 1
    a_minute(made, clock, other)
    if lost:
        cursors[first] = None
    else:
        without_room(cursors, first)
    made = reloaded(made, 2)
    clock[0] += 60
    made.tick(first)
    assert made.evaluates(first)  # its cursor can be read


@pytest.mark.parametrize("shards", [1, 2])
def test_what_can_not_be_read_once_is_read_by_the_next_tick(
    cursors: Cursors, clock: list[float], monkeypatch: pytest.MonkeyPatch, shards: int
) -> None:
    made = failing(shards, cursors)
    since = a_minute(made, clock)
    cursors[made.names[0]] = None
    with monkeypatch.context() as patch:
        patch.setattr(telling, "recall", locked)
        clock[0] += 600
        for name in reversed(made.names):
            assert made.tick(name).fleet is None
    assert a_minute(made, clock) == since


def test_what_can_not_be_read_for_long_is_told_as_new(
    cursors: Cursors, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = failing(1, cursors)
    a_minute(made, clock)
    [name] = made.names
    cursors[name] = None
    monkeypatch.setattr(telling, "recall", locked)
    told = []
    for _ in range(UNREAD + 1):
        clock[0] += 600
        told.append(made.tick(name).fleet is not None)
    assert told == [False] * UNREAD + [True]


def test_a_sensor_that_can_read_nothing_at_first_tells_no_wrong_beginning(
    cursors: Cursors, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def hangs(*_: object) -> None:
        raise NoAnswer("Dagster's storage gave no answer")

    made = failing(1, cursors)
    since = a_minute(made, clock)
    made = reloaded(made, 2)
    first, other = made.names
    with monkeypatch.context() as patch:
        patch.setattr(tick_module, "sensor_cursors", hangs)
        patch.setattr(telling, "recall", hangs)
        clock[0] += 600
        made.tick(other)
    made.tick(first)
    for _ in range(3):
        assert a_minute(made, clock) == since


def test_what_was_told_of_a_sensor_whose_ticks_dagster_dropped_stands_in_the_next_process(
    cursors: Cursors, clock: list[float]
) -> None:
    made = running(12, 2, cursors=cursors)
    _, other = made.names
    a_minute(made, clock)
    fail(made)
    stored = cursors[other]
    made.evaluate(other)
    cursors[other] = stored
    since = a_minute(made, clock, other)
    made = reloaded(made, 2)
    assert a_minute(made, clock) == since


def test_of_a_sensor_that_is_no_more_and_had_no_room_it_is_the_same_problem(
    cursors: Cursors, clock: list[float]
) -> None:
    made = failing(3, cursors)
    since = a_minute(made, clock)
    without_room(cursors, made.names[2])
    made = reloaded(made, 2)
    assert a_minute(made, clock) == since


def test_a_stream_that_is_declared_again_after_days_has_a_new_problem(
    cursors: Cursors, clock: list[float]
) -> None:
    made = failing(2, cursors)
    a_minute(made, clock)
    gone = next(one for one in made.streams if made.shard(one.name) == made.names[1])
    every, made = made.streams, reloaded(made, 1)  # the cursor of the second sensor stays
    run_well(made)
    a_minute(made, clock)
    made.streams = [one for one in every if one is not gone]
    made.world.streams.pop(gone.name)
    made = reloaded(made, 1)
    a_minute(made, clock)
    clock[0] += 30 * 86400
    a_minute(made, clock)
    made.streams = every
    made.world.run(gone)
    made.world.end(gone.name)
    made = reloaded(made, 1)
    assert a_minute(made, clock)[gone.name] == round(clock[0], 3)


def test_problems_of_others_do_not_cost_the_cursor_its_own_minutes(
    cursors: Cursors, clock: list[float], now: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = running(240, 10, cursors=cursors)
    first, *others = made.names
    for stream in made.streams:
        if made.shard(stream.name) == first:
            made.world.streams[stream.name].batch_seconds = 5
        else:
            made.world.end(stream.name)
    a_minute(made, clock)
    monkeypatch.setattr(cursor_module, "A_STREAM", 0)
    monkeypatch.setattr(cursor_module, "ROOM", len(cursors[first] or "") + 1000)
    assert not _spilled(made, clock, now, others)
    now[0] += board_module.SILENT
    assert not _spilled(made, clock, now, ())
    said = Memory.load(cursors[first]).left_out
    assert said == ["the problems of streams whose sensors are silent"]


def _spilled(made: Sharded, clock: list[float], now: list[float], others: Sequence[str]) -> bool:
    """Whether the first sensor has minutes carried by the fleet's event, within three minutes in
    which these tick beside it."""
    told = []
    for _ in range(3):
        clock[0] += 60
        now[0] += 60
        for name in others:
            made.tick(name)
        events = made.tick(made.names[0]).data.asset_events
        told += [each for each in events if each.asset_key == FLEET_KEY]
    return any(MINUTES in each.metadata for each in told)


def test_after_a_night_without_dagster_another_sensor_takes_all_problems_over(
    cursors: Cursors, clock: list[float]
) -> None:
    """Of more than the fleet's event has."""
    made = running(150, 2, cursors=cursors)
    fail(made)
    a_minute(made, clock)
    since = since_in(cursors, *made.names)
    clock[0] += 10 * 3600
    made = reloaded(made, 1)
    a_minute(made, clock)
    assert since_in(cursors, *made.names) == since and len(since) == 150


def since_in(cursors: Cursors, *sensors: str) -> dict[str, float]:
    """Since when each stream has failed, by these sensors' cursors."""
    return {
        name: found["failed"].since
        for sensor in sensors
        for name, found in Memory.load(cursors[sensor]).fleet.problems.items()
    }


@pytest.mark.parametrize("first_too", [False, True])
def test_sensors_that_can_read_nothing_for_long_are_not_silent(
    cursors: Cursors,
    clock: list[float],
    now: list[float],
    monkeypatch: pytest.MonkeyPatch,
    first_too: bool,
) -> None:
    made = failing(3, cursors)
    a_minute(made, clock)
    made = reloaded(made, 3)
    first, *others = made.names
    for _ in range(UNREAD + 3):
        with monkeypatch.context() as patch:
            if first_too:
                patch.setattr(telling, "recall", locked)
            told = made.tick(first).fleet
        with monkeypatch.context() as patch:
            patch.setattr(telling, "recall", locked)
            for name in others:
                made.tick(name)
        problems = told["for alerts"]["problems"] if told is not None else []
        assert all(each["problem"] == "failed" for each in problems)
        now[0] += 62
        clock[0] += 62


def test_what_a_cursor_says_that_is_newer_than_the_fleets_event_stands(
    cursors: Cursors, clock: list[float]
) -> None:
    made = failing(2, cursors)
    _, other = made.names
    a_minute(made, clock)
    run_well(made)
    for _ in range(5):  # the first sensor is off
        clock[0] += 600
        made.tick(other)
    clock[0] += 86400
    fail(made)
    made.tick(other)
    new = round(clock[0], 3)
    for _ in range(2):
        clock[0] += 60
        made.tick(other)
    made = reloaded(made, 2)
    since = a_minute(made, clock)
    assert {since[name] for name in made.evaluates(other)} == {new}


@pytest.mark.parametrize("ended", [False, True])
def test_what_was_told_by_a_tick_whose_cursor_was_not_stored_stands(
    cursors: Cursors, clock: list[float], ended: bool
) -> None:
    made = running(12, 1, cursors=cursors)
    [name] = made.names
    a_minute(made, clock)
    fail(made)
    stored = cursors[name]
    since = a_minute(made, clock)
    cursors[name] = stored
    if ended:  # and the first tick of the next process is dropped as a whole
        made = reloaded(made, 1)
        clock[0] += 60
        made.evaluate(name)
        cursors[name] = stored
    assert a_minute(made, clock) == since
