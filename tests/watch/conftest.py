import time
import zlib

import pytest

from dagster_sparkscale.autoscale import rescale as rescale_module
from dagster_sparkscale.lifecycle import reconcile as reconcile_module
from dagster_sparkscale.watch.memory import Memory
from dagster_sparkscale.watch.process import Watch
from tests.watch.deployment import STREAM, Deployment


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(rescale_module, "_POLL", 0)
    monkeypatch.setattr(reconcile_module, "_POLL", 0)


@pytest.fixture(autouse=True)
def what_a_tick_remembers_is_what_its_cursor_says(monkeypatch):
    """Whether or not the process that has written a cursor goes on with it."""
    remembered = Watch.remembered

    def compared(watch: Watch, cursor: str | None) -> Memory:
        found = remembered(watch, cursor)
        assert found == Memory.load(cursor)
        return found

    monkeypatch.setattr(Watch, "remembered", compared)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    """A proxy for the outside world must not get between this machine and itself."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    """The time of day, which stands still unless a test moves it. It begins shortly after a moment
    at which the stream `clicks` is told of though nothing has happened."""
    moment = zlib.crc32(b"clicks") % 600
    now = [(time.time() + moment) // 600 * 600 - moment + 600 + 5]
    monkeypatch.setattr(time, "time", lambda: now[0])
    return now


@pytest.fixture
def deployed() -> Deployment:
    return Deployment([STREAM])
