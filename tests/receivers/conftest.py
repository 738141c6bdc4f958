from dataclasses import replace

import pytest

from dagster_sparkscale.lifecycle import reconcile, trial
from dagster_sparkscale.receivers import rebalance
from tests.in_memory.cluster import World
from tests.receivers.recounting import STREAM, record, starts_its_receivers
from tests.receivers.streams import spread_over


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    for module in (reconcile, rebalance, trial):
        monkeypatch.setattr(module, "_POLL", 0)


@pytest.fixture
def world() -> World:
    """A driver with two receivers, which ends drained; so does each that comes after it."""
    world = World(on_submit=starts_its_receivers)
    spread_over(world, STREAM, (1, 1))
    now = record(world)
    world.records["clicks"] = replace(
        now, receivers=2, receivers_declared=2, revision=now.revision + 1
    )
    world.on_look = lambda kept: setattr(kept, "drained", True)
    return world
