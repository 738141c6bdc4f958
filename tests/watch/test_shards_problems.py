"""Since when a stream has a problem, where several sensors evaluate the streams of one cluster.
Each remembers those of its own streams, so that no cursor grows with the streams of others."""

import json
from dataclasses import replace

import dagster as dg
import pytest

from dagster_sparkscale.markdown import hidden
from dagster_sparkscale.watch import board as board_module
from dagster_sparkscale.watch import telling
from dagster_sparkscale.watch import tick as tick_module
from dagster_sparkscale.watch.fleet.events import FOR_ALERTS, recall
from dagster_sparkscale.watch.fleet.memory import FleetMemory
from dagster_sparkscale.watch.fleet.problems import Standing
from dagster_sparkscale.watch.memory import Memory
from tests.watch.test_shards import Sharded, running
from tests.watch.test_shards_memory import locked, reloaded

Cursors = dict[str, str | None]


def failing(shards: int, cursors: Cursors) -> Sharded:
    """Twelve streams whose drivers have all failed."""
    made = running(12, shards, cursors=cursors)
    for stream in made.streams:
        made.world.end(stream.name)
    return made


def a_minute(made: Sharded, clock: list[float], *but: str) -> dict[str, float]:
    """All sensors tick, `but` those; gives since when each stream has failed, as people are told
    next, by stream."""
    first, *others = made.names
    clock[0] += 600  # whatever is so, it is told of
    for name in others:
        if name not in but:
            made.tick(name)
    told = made.tick(first).fleet
    assert told is not None
    return {
        one["stream"]: one["since"]
        for one in told["for alerts"]["problems"]
        if one["problem"] == "failed"
    }


def remembered(made: Sharded, sensor: str) -> set[str]:
    """The streams whose problems a sensor's cursor has."""
    return {*Memory.load(made.cursors[sensor]).fleet.problems}


def test_each_sensor_remembers_those_of_its_own_streams(
    cursors: Cursors,
    clock: list[float],
) -> None:
    made = failing(3, cursors)
    assert len(a_minute(made, clock)) == 12
    for name in made.names:
        assert remembered(made, name) == made.evaluates(name) != set()


@pytest.mark.parametrize("shards", [(1, 3), (3, 1), (2, 3), (3, 2)])
def test_a_stream_that_comes_to_another_sensor_has_the_same_problem(
    cursors: Cursors,
    clock: list[float],
    shards: tuple[int, int],
) -> None:
    before, after = shards
    made = failing(before, cursors)
    since = a_minute(made, clock)
    made = reloaded(made, after)
    for _ in range(4):
        assert a_minute(made, clock) == since
    for name in made.names:
        assert remembered(made, name) == made.evaluates(name)


def test_where_the_first_sensor_has_remembered_those_of_all_they_are_the_same(
    cursors: Cursors,
    clock: list[float],
) -> None:
    """As a release before did."""
    made = failing(3, cursors)
    since = a_minute(made, clock)
    memories = {name: Memory.load(cursors[name]) for name in made.names}
    first, *others = memories.values()
    for memory in others:
        first.fleet.problems |= memory.fleet.problems
        memory.fleet.problems, memory.fleet.told_at = {}, 0.0
    for name, memory in memories.items():
        cursors[name] = memory.dump({stream.name for stream in made.streams})
    made = reloaded(made, 3)
    for _ in range(3):
        assert a_minute(made, clock) == since


@pytest.mark.parametrize("lost", [0, 1])
def test_where_a_cursor_was_lost_it_is_the_same_problem(
    cursors: Cursors,
    clock: list[float],
    lost: int,
) -> None:
    made = failing(2, cursors)
    since = a_minute(made, clock)
    cursors[made.names[lost]] = None
    for _ in range(2):
        assert a_minute(made, clock) == since


def test_while_a_sensor_is_silent_the_first_one_remembers_those_of_its_streams(
    cursors: Cursors,
    clock: list[float],
    now: list[float],
) -> None:
    made = failing(2, cursors)
    first, other = made.names
    since = a_minute(made, clock)
    theirs = made.evaluates(other)
    for _ in range(2):
        now[0] += board_module.SILENT + 1
        assert a_minute(made, clock, other) == since
        assert remembered(made, first) == {stream.name for stream in made.streams}
    made = reloaded(made, 2)  # and the process has ended meanwhile
    made.tick(first)
    now[0] += board_module.SILENT + 1
    assert a_minute(made, clock, other) == since
    assert a_minute(made, clock) == since
    clock[0] += 600
    made.tick(first)
    assert remembered(made, first) == made.evaluates(first)
    assert remembered(made, other) == theirs


def test_what_is_over_is_over_wherever_it_was_remembered(
    cursors: Cursors,
    clock: list[float],
) -> None:
    made = failing(1, cursors)
    a_minute(made, clock)
    for stream in made.streams:
        made.world.run(stream)
        made.world.streams[stream.name].batch_seconds = 5
    made = reloaded(made, 3)
    for _ in range(3):
        a_minute(made, clock)
    assert a_minute(made, clock) == {}
    assert [remembered(made, name) for name in made.names] == [set()] * 3


def run_well(made: Sharded) -> None:
    for stream in made.streams:
        made.world.run(stream)
        made.world.streams[stream.name].batch_seconds = 5


def fail(made: Sharded) -> None:
    for stream in made.streams:
        made.world.end(stream.name)


def test_a_tick_that_dagster_drops_makes_no_problem_another_one(
    cursors: Cursors,
    clock: list[float],
) -> None:
    made = running(12, 2, cursors=cursors)
    _, other = made.names
    a_minute(made, clock)
    fail(made)
    stored, told = cursors[other], []
    for _ in range(3):
        made.evaluate(other)
        cursors[other] = stored
        told.append(a_minute(made, clock, other))
    assert told[0] == told[1] == told[2] and len(told[0]) == 12


def test_what_a_sensor_remembers_that_there_is_no_more_comes_back_no_more(
    cursors: Cursors,
    clock: list[float],
) -> None:
    made = failing(2, cursors)
    a_minute(made, clock)
    made = reloaded(made, 1)
    run_well(made)
    for _ in range(3):
        a_minute(made, clock)
    assert a_minute(made, clock) == {}
    made = reloaded(made, 1)
    fail(made)
    assert {*a_minute(made, clock).values()} == {round(clock[0], 3)}


def test_of_two_sensors_that_remember_a_problem_the_later_is_right(
    cursors: Cursors,
    clock: list[float],
) -> None:
    made = failing(2, cursors)
    a_minute(made, clock)
    made = reloaded(made, 1)
    run_well(made)
    for _ in range(3):
        a_minute(made, clock)
    fail(made)
    since = a_minute(made, clock)
    made = reloaded(made, 2)
    for _ in range(3):
        assert a_minute(made, clock) == since


def test_those_of_a_sensor_that_is_silent_since_the_process_began_stand(
    cursors: Cursors,
    clock: list[float],
    now: list[float],
) -> None:
    made = failing(2, cursors)
    first, other = made.names
    since = a_minute(made, clock)
    made = reloaded(made, 2)
    made.tick(first)
    now[0] += board_module.SILENT + 1
    assert a_minute(made, clock, other) == since
    assert a_minute(made, clock) == since


def test_what_others_remember_may_be_read_a_tick_later(
    cursors: Cursors,
    clock: list[float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = failing(2, cursors)
    since = a_minute(made, clock)
    made = reloaded(made, 1)
    with monkeypatch.context() as patch:
        patch.setattr(tick_module, "sensor_cursors", locked)
        assert a_minute(made, clock) == since
    for _ in range(2):
        assert a_minute(made, clock) == since


def test_a_sensor_that_cannot_read_what_was_told_is_not_silent(
    cursors: Cursors,
    clock: list[float],
    now: list[float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = failing(2, cursors)
    first, other = made.names
    since = a_minute(made, clock)
    cursors[other] = None
    for _ in range(3):
        now[0] += board_module.SILENT / 2
        clock[0] += 600
        with monkeypatch.context() as patch:
            patch.setattr(telling, "recall", locked)
            made.tick(other)
        told = made.tick(first).fleet
        assert told is not None
        assert all(one["problem"] == "failed" for one in told["for alerts"]["problems"])
    assert a_minute(made, clock) == since


def test_a_trial_with_an_empty_cursor_changes_no_problem(
    cursors: Cursors,
    clock: list[float],
) -> None:
    made = failing(2, cursors)
    _, other = made.names
    since = a_minute(made, clock)
    stored = cursors[other]
    with dg.DagsterInstance.ephemeral() as empty:  # nothing was told that could be recalled
        made.instance, whole = empty, made.instance
        cursors[other] = None
        made.evaluate(other)
        made.instance, cursors[other] = whole, stored
    assert a_minute(made, clock, other) == since


def test_of_what_is_recalled_only_the_beginning_is_known_better() -> None:
    memory, instance = FleetMemory(), dg.DagsterInstance.ephemeral()
    known = Standing(2000.0, 2500.0, "3 records lost", "3")
    memory.problems["s0"] = {"losing_data": known}
    news = {
        "of": "web/x",
        "at": 2600.0,
        "problems": [
            {"stream": name, "problem": "losing_data", "since": 1000.0, "text": "", "page": ""}
            for name in ("s0", "s1", "s2")
        ],
    }
    key = dg.AssetKey("fleet")
    told = {FOR_ALERTS: dg.MetadataValue.md(hidden("", json.dumps(news)))}
    instance.report_runless_asset_event(dg.AssetObservation(key, metadata=told))
    recall(memory, instance, key, "web/x", {"s0", "s1"})
    assert memory.problems == {
        "s0": {"losing_data": replace(known, since=1000.0)},
        "s1": {"losing_data": Standing(1000.0, 2600.0, "")},
    }
