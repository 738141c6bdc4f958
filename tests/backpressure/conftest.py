import pytest

from dagster_sparkscale.backpressure import applying
from dagster_sparkscale.lifecycle import reconcile


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(reconcile, "_POLL", 0)
    monkeypatch.setattr(applying, "_POLL", 0)
