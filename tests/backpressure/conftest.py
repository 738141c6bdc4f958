import pytest

from dagster_sparkscale.lifecycle import reconcile, trial
from tests.backpressure.retuning import deployment, has_run


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(reconcile, "_POLL", 0)
    monkeypatch.setattr(trial, "_POLL", 0)


@pytest.fixture
def deployed():
    """A stream whose history says that its limit is far too high."""
    it = deployment()
    has_run(it)
    return it
