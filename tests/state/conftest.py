import pytest

from dagster_sparkscale.lifecycle import reconcile as reconcile_module
from dagster_sparkscale.state import following as following_module


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(following_module, "_POLL", 0)
    monkeypatch.setattr(reconcile_module, "_POLL", 0)
