import pytest

from dagster_sparkscale.autoscale import rescale as rescale_module
from dagster_sparkscale.lifecycle import reconcile as reconcile_module
from tests.watch.deployment import STREAM, Deployment


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(rescale_module, "_POLL", 0)
    monkeypatch.setattr(reconcile_module, "_POLL", 0)


@pytest.fixture
def deployed() -> Deployment:
    return Deployment([STREAM])
