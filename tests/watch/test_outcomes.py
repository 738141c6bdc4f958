"""What Dagster has stored of checks is read by few queries, however many streams look for it."""

import zlib

import dagster as dg
import pytest

from dagster_sparkscale.watch import telling
from dagster_sparkscale.watch.page import outcomes
from dagster_sparkscale.watch.page.events import AGAIN
from dagster_sparkscale.watch.page.outcomes import Outcomes
from tests.fakes import scaled
from tests.watch.deployment import Deployment, overload

NAMES = [f"s{number}" for number in range(8)]


@pytest.fixture
def queries(monkeypatch) -> list[int]:
    """Of how many checks each query was."""
    read, asked = outcomes.stored_outcomes, []

    def counted(instance, keys):
        keys = list(keys)
        asked.append(len(keys))
        return read(instance, keys)

    monkeypatch.setattr(outcomes, "stored_outcomes", counted)
    return asked


@pytest.fixture
def many(clock) -> Deployment:
    """Eight streams, told of once, that look at the same minute what is stored of them."""
    deployed = Deployment([scaled(name) for name in NAMES])
    for stream in deployed.streams:
        overload(deployed, stream, batch_seconds=5)
    deployed.tick()
    return deployed


def an_hour_later(many: Deployment, clock) -> None:
    for name in NAMES:
        stored_by_hand(many, name, "running", False)
    clock[0] += AGAIN


def stored_by_hand(many: Deployment, name: str, check: str, passed: bool) -> None:
    many.instance.report_runless_asset_event(
        dg.AssetCheckEvaluation(asset_key=dg.AssetKey(name), check_name=check, passed=passed)
    )


def test_those_of_many_streams_are_read_by_one(many, clock, queries):
    an_hour_later(many, clock)
    tick = many.tick()
    assert all(tick.checks(name)["running"] is True for name in NAMES)
    assert len([count for count in queries if count]) == 1


def test_so_many_at_once(many, clock, queries, monkeypatch):
    monkeypatch.setattr(telling, "READ_AHEAD", 8)
    an_hour_later(many, clock)
    tick = many.tick()
    assert all(tick.checks(name)["running"] is True for name in NAMES)
    assert queries == [8] * 5


def test_where_it_takes_long_the_others_are_read_alone(many, clock, queries, monkeypatch):
    monkeypatch.setattr(telling, "READ_AHEAD", 8)
    monkeypatch.setattr(telling, "READING", 0.0)
    an_hour_later(many, clock)
    tick = many.tick()
    assert all(tick.checks(name)["running"] is True for name in NAMES)
    assert queries == [5] * 8


def test_where_it_has_failed_each_is_read_alone_and_at_the_next_tick_too(
    many, clock, queries, monkeypatch
):
    an_hour_later(many, clock)

    def locked(self, keys):
        raise OSError("database is locked")

    with monkeypatch.context() as patch:
        patch.setattr(Outcomes, "read_ahead", locked)
        tick = many.tick()
    assert all(tick.checks(name)["running"] is True for name in NAMES)
    assert "can't be read: OSError: database is locked" in tick.data.skip_message
    assert queries == [5] * 8
    for expected in ([5] * 8, [40]):
        queries.clear()
        an_hour_later(many, clock)
        many.tick()
        assert queries == expected


def test_in_other_minutes_nothing_is_read(clock, queries):
    deployed = Deployment([scaled("s0")])
    overload(deployed, deployed.streams[0], batch_seconds=5)
    clock[0] += -(clock[0] + zlib.crc32(b"s0")) % AGAIN + 5  # its hour has just begun
    deployed.tick()
    for _ in range(int(AGAIN // 60) - 1):
        clock[0] += 60
        deployed.tick()
    assert not any(queries)
    clock[0] += 60
    deployed.tick()
    assert any(queries)
