import time
import zlib
from types import SimpleNamespace

import pytest

from dagster_sparkscale.autoscale import rescale as rescale_module
from dagster_sparkscale.lifecycle import reconcile as reconcile_module
from dagster_sparkscale.watch import board as board_module
from dagster_sparkscale.watch import tick as tick_module
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


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What time it is by the clock by which sensors see that another one is silent."""
    passed = [0.0]
    monkeypatch.setattr(board_module, "time", SimpleNamespace(monotonic=lambda: passed[0]))
    return passed


@pytest.fixture
def cursors(monkeypatch: pytest.MonkeyPatch) -> dict[str, str | None]:
    """What Dagster remembers of each sensor, also of those that there are no more."""
    stored: dict[str, str | None] = {}
    monkeypatch.setattr(
        tick_module,
        "sensor_cursors",
        lambda *_: [(sensor, cursor) for sensor, cursor in stored.items() if cursor],
    )
    return stored
