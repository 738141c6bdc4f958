"""After a fault of all streams not all runs are asked for at once: Dagster launches them one after
the other, and begins no tick meanwhile."""

import pytest

from dagster_sparkscale.deadlines import NoAnswer
from dagster_sparkscale.watch import tick as tick_module
from dagster_sparkscale.watch import turns
from tests.fakes import scaled
from tests.watch.deployment import Deployment, Tick, overload

NAMES = [f"s{number}" for number in range(7)]


@pytest.fixture
def many(monkeypatch, clock) -> Deployment:
    monkeypatch.setattr(turns, "RUNS", 3)
    monkeypatch.setattr(turns, "LEAST_RUNS", 1)
    deployed = Deployment([scaled(name) for name in NAMES])
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
    assert "others come first in this minute; otherwise: scale to" in tick.decided(waiting)


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
