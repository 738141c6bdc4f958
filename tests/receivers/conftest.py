import pytest

from dagster_sparkscale.lifecycle import reconcile
from dagster_sparkscale.receivers import rebalance, recount_following


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    for module in (reconcile, rebalance, recount_following):
        monkeypatch.setattr(module, "_POLL", 0)
