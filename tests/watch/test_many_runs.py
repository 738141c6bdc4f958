"""After a fault of all streams not all runs are asked for at once: Dagster launches them one after
the other, and begins no tick meanwhile."""

from dataclasses import replace

import pytest

from dagster_sparkscale.deadlines import NoAnswer
from dagster_sparkscale.declare.budget import Budget
from dagster_sparkscale.watch import tick as tick_module
from dagster_sparkscale.watch import turns
from tests.fakes import scaled
from tests.watch.deployment import Deployment, Tick, overload

NAMES = [f"s{number}" for number in range(7)]


@pytest.fixture
def few_runs(monkeypatch):
    """Three in a tick."""
    monkeypatch.setattr(turns, "RUNS", 3)
    monkeypatch.setattr(turns, "LEAST_RUNS", 1)


@pytest.fixture
def many(few_runs, clock) -> Deployment:
    deployed = Deployment([scaled(name, max_executors=100_000) for name in NAMES])
    for stream in deployed.streams:
        overload(deployed, stream)
    return deployed


def asked(tick: Tick) -> list[str]:
    return sorted(request.tags["dagster-sparkscale/stream"] for request in tick.requests)


def test_all_have_their_turn(many, clock):
    found = []
    for _ in range(3):
        tick = many.tick()
        found.append(asked(tick))
        for request in tick.requests:
            assert many.run(request).success
        clock[0] += 10  # nobody who was asked for is due again
    assert [len(each) for each in found] == [3, 3, 1]
    assert sorted(name for each in found for name in each) == NAMES


def test_who_waits_says_so(many, capfd):
    tick = many.tick()
    assert "3 of 7 runs are asked for: the rest follows" in capfd.readouterr().err
    (waiting, *_) = sorted({*NAMES} - {*asked(tick)})
    assert "others come first in this tick; otherwise: scale to" in tick.decided(waiting)


def test_where_none_can_be_asked_for_none_is_said_to_be(many, monkeypatch):
    def hangs(*_):
        raise NoAnswer("Dagster's storage gave no answer")

    monkeypatch.setattr(tick_module, "in_flight", hangs)
    said = many.tick().data.skip_message
    assert "runs are asked for" not in said
    assert said.count("which operations are in progress can't be told") == len(NAMES)


def test_those_that_have_failed_come_first(many, clock):
    for name in ("s5", "s6"):
        many.world.end(name)
    clock[0] += 60
    first = asked(many.tick())
    assert {"s5", "s6"} < {*first} and len(first) == 3


def test_those_whose_runs_come_to_nothing_do_not_keep_the_others_waiting(many, clock):
    broken = NAMES[:3]
    for name in broken:
        many.world.end(name)
    clock[0] += 120
    found = set()
    for _ in range(4):
        for name in asked(tick := many.tick()):
            found.add(name)
        for request in tick.requests:
            if request.tags["dagster-sparkscale/stream"] not in broken:
                assert many.run(request).success
        clock[0] += 60
    assert found == {*NAMES}


def test_all_have_their_turn_after_the_clock_was_set_back(many, clock):
    for _ in range(3):
        for request in many.tick().requests:
            assert many.run(request).success
        clock[0] += 10
    clock[0] -= 1800
    found = set()
    for _ in range(4):
        tick = many.tick()
        found |= {*asked(tick)}
        for request in tick.requests:
            assert many.run(request).success
        clock[0] += 65
    assert found == {*NAMES}


def test_those_that_have_failed_come_first_also_after_a_tick_that_dagster_has_dropped(many, clock):
    many.tick()
    for name in NAMES[:3]:
        many.world.end(name)
    clock[0] += 120
    stored = many.cursor
    assert asked(many.tick(stored=False)) == NAMES[:3]
    many.cursor = stored
    clock[0] += 60
    assert asked(many.tick()) == NAMES[:3]


def test_those_whose_runs_come_to_nothing_keep_nobody_waiting_after_the_clock_was_set_back(
    many, clock
):
    broken = NAMES[:3]
    for name in broken:
        many.world.end(name)
        kept = many.world.streams[name]
        kept.driver = replace(kept.driver, submitted_at=clock[0] - 60)
    clock[0] -= 1800
    found = set()
    for _ in range(6):
        tick = many.tick()
        found |= {*asked(tick)}
        for request in tick.requests:
            if request.tags["dagster-sparkscale/stream"] not in broken:
                assert many.run(request).success
        clock[0] += 65
    assert found == {*NAMES}


@pytest.mark.parametrize("runs", [1, 3])
def test_a_budget_serves_the_highest_priority_also_where_it_has_to_wait(
    runs, few_runs, monkeypatch, clock
):
    monkeypatch.setattr(turns, "RUNS", runs)
    low, high = scaled("a_low"), scaled("b_high").model_copy(update={"priority": 1})
    deployed = Deployment([low, high], budget=Budget(cores=8))
    for stream in (low, high):
        overload(deployed, stream, executors=2)
    got = {}
    for _ in range(3):
        for request in deployed.tick().requests:
            (op,) = request.run_config["ops"].values()
            got[request.tags["dagster-sparkscale/stream"]] = op["config"]["target"]
            assert deployed.run(request).success
        clock[0] += 70
    assert got["b_high"] == 5


def test_runs_that_a_budget_holds_are_not_said_to_be_asked_for(few_runs, clock):
    deployed = Deployment([scaled(name) for name in NAMES], budget=Budget(cores=14))
    for stream in deployed.streams:
        overload(deployed, stream, executors=2)
    tick = deployed.tick()
    assert not tick.requests
    assert "runs are asked for" not in tick.data.skip_message
