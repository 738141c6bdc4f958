"""How often a driver is looked at while something of it is awaited."""

from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.clusters import pauses as pauses_module
from dagster_sparkscale.clusters import submitted
from dagster_sparkscale.clusters.base import DriverState
from dagster_sparkscale.clusters.errors import AgentUnreachable
from dagster_sparkscale.clusters.fate import Fate, Observed
from dagster_sparkscale.clusters.pauses import SOONEST, pauses, wait_until
from dagster_sparkscale.clusters.records.store import Record
from dagster_sparkscale.clusters.submitted import LISTEN, SubmittedDriver


@given(longest=st.floats(0.01, 60.0))
def test_pauses_double_up_to_the_longest(longest: float) -> None:
    first = list(islice(pauses(longest), 20))
    assert first[0] == min(SOONEST, longest) and first[-1] == pytest.approx(longest)
    assert all(a <= b <= 2 * a for a, b in pairwise(first))


@dataclass
class Clock:
    now: float = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (pauses_module, submitted):
        monkeypatch.setattr(module, "time", clock)
    return clock


def test_what_is_awaited_is_looked_at_to_the_last_moment(clock: Clock) -> None:
    looks: list[float] = []
    assert not wait_until(lambda: bool(looks.append(clock.now)), 30.0, 4.0)
    assert [at - 1000.0 for at in looks] == [0, 1, 3, 7, 11, 15, 19, 23, 27, 30]
    assert wait_until(lambda: clock.now >= 1035.0, 30.0, 4.0) and clock.now == 1037.0


@dataclass
class Waited(SubmittedDriver):
    """A driver that is to end: when its agent falls silent, and when it has ended."""

    EVERY = 5.0

    clock: Clock
    agrees_after: int = 0
    silent_at: float = 2000.0
    ends_at: float = 2000.0
    looks: list[float] = field(default_factory=list)
    stops: list[float] = field(default_factory=list)
    listened: int = 0
    killed: bool = False

    def __post_init__(self) -> None:
        super().__init__("clicks", replace(Record.new("1" * 16), epoch=1, desired="stopped"))

    def look(self) -> Observed:
        self.looks.append(self.clock.now - 1000.0)
        ended = self.killed or self.clock.now >= self.ends_at
        return Observed(Fate(DriverState.FAILED if ended else DriverState.RUNNING))

    def agent(self) -> Any:
        def stop(*_: Any, **__: Any) -> None:
            self.stops.append(self.clock.now - 1000.0)
            if len(self.stops) <= self.agrees_after:
                raise AgentUnreachable("busy")

        def status(**_: Any) -> None:
            self.listened += 1
            if self.clock.now >= self.silent_at:
                raise AgentUnreachable("silent")

        return SimpleNamespace(stop=stop, status=status)

    def log(self, lines: int) -> str:
        return ""

    def kill(self) -> None:
        self.killed = True

    def clear(self) -> None:
        pass


LEASE: Any = SimpleNamespace(check=lambda: None, number=1)


def test_the_end_of_a_driver_that_has_agreed_is_seen_as_soon_as_its_agent_is_silent(
    clock: Clock,
) -> None:
    driver = Waited(clock, silent_at=1040.2, ends_at=1040.4)
    driver.end(LEASE, graceful=True, timeout=120.0)
    assert 40.0 <= clock.now - 1000.0 <= 40.4 + SOONEST + LISTEN
    assert driver.stops == [0.0] and driver.listened > 60
    # Before that it is looked at as seldom as without.
    assert [at for at in driver.looks if at < 40] == [0, 1, 3, 7, 12, 17, 22, 27, 32, 37]


def test_who_does_not_answer_is_asked_seldom_and_killed_in_time(clock: Clock) -> None:
    driver = Waited(clock, agrees_after=1000)
    driver.end(LEASE, graceful=True, timeout=60.0)
    assert driver.killed and clock.now == pytest.approx(1060.0)
    assert driver.listened == 0
    # A look and, each second time, a request: with the lease that is one call in two seconds.
    late = [at for at in driver.looks if 8 < at < 58], [at for at in driver.stops if 8 < at < 58]
    assert len(late[0]) <= 10 and len(late[1]) <= 5


def test_one_that_was_busy_is_asked_again(clock: Clock) -> None:
    driver = Waited(clock, agrees_after=2, silent_at=1030.0, ends_at=1030.0)
    ended = driver.end(LEASE, graceful=True, timeout=60.0)
    assert not driver.killed and ended.state is DriverState.STOPPED
    assert len(driver.stops) == 3 and clock.now - 1000.0 < 32.0


def test_of_processes_of_this_host_nothing_is_listened_to(clock: Clock) -> None:
    """A look costs nothing there."""

    class Here(Waited):
        EVERY = 0.1

    driver = Here(clock, ends_at=1002.0)
    driver.end(LEASE, graceful=True, timeout=60.0)
    assert driver.listened == 0 and len(driver.looks) >= 20
