import pytest

from dagster_sparkscale.lifecycle import reconcile as reconcile_module
from dagster_sparkscale.lifecycle import trial
from tests.in_memory.cluster import World
from tests.state.following import STREAM
from tests.state.saying import kept_by


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(trial, "_POLL", 0)
    monkeypatch.setattr(reconcile_module, "_POLL", 0)


@pytest.fixture
def world() -> World:
    """One with a stream that runs on 4 partitions."""
    it = World()
    it.run(STREAM, queries=(kept_by(),), batch_seconds=1.0)
    return it
