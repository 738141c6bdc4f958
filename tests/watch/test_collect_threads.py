"""How many threads look at streams: more where those who answer are slow, none where the process is
busy."""

import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_sparkscale.watch.collect import BUSY_PATIENCE, PATIENCE, _OneAtATime, _Pace
from tests.waiting import HANGS


@pytest.fixture
def pace(monkeypatch: pytest.MonkeyPatch) -> Callable[[float, int], bool]:
    """Whether one more thread is of use after a moment in which so much of a processor was used and
    so many steps were done."""
    clock = SimpleNamespace(now=100.0, used=3.0, done=0)
    times = SimpleNamespace(monotonic=lambda: clock.now, process_time=lambda: clock.used)
    monkeypatch.setattr(sys.modules[_Pace.__module__], "time", times)
    made = _Pace()

    def after(load: float, steps: int = 0) -> bool:
        clock.now += PATIENCE
        clock.used += PATIENCE * load
        clock.done += steps
        return made.is_slow(clock.done)

    return after


def test_a_process_that_waits_gets_more_threads(pace):
    assert [pace(0.1, 1) for _ in range(10)].count(True) >= 5


def test_a_busy_one_gets_none_while_it_gets_on(pace):
    assert not any(pace(load, 1) for load in [1.0, 0.7, 1.9, 0.8] * 50)


def test_one_moment_in_which_it_waits_makes_no_busy_process_idle(pace):
    assert not any(pace(load, 1) for load in ([1.0] * 9 + [0.0]) * 5)


def test_a_busy_one_that_gets_nothing_done_gets_one_now_and_then(pace):
    moments = round(10 * BUSY_PATIENCE / PATIENCE)
    assert 9 <= [pace(1.0) for _ in range(moments)].count(True) <= 10


@given(st.lists(st.floats(0.65, 4.0), max_size=200))
def test_no_load_above_the_bound_makes_it_idle(loads):
    clock = SimpleNamespace(now=0.0, used=0.0)
    with pytest.MonkeyPatch.context() as patch:
        times = SimpleNamespace(monotonic=lambda: clock.now, process_time=lambda: clock.used)
        patch.setattr(sys.modules[_Pace.__module__], "time", times)
        pace = _Pace()
        for done, load in enumerate(loads, start=1):
            clock.now += PATIENCE
            clock.used += PATIENCE * load
            assert not pace.is_slow(done)


class TestOneAtATime:
    def test_one_has_the_turn_and_the_next_waits(self):
        turns, held, order = _OneAtATime(), threading.Event(), []

        def second() -> None:
            held.set()
            with turns.turn():
                order.append("second")

        with turns.turn():
            thread = threading.Thread(target=second)
            thread.start()
            assert held.wait(HANGS)
            order.append("first")
        thread.join(HANGS)
        assert order == ["first", "second"]

    def test_who_hangs_is_waited_for_once(self):
        turns, release, hangs = _OneAtATime(), threading.Event(), threading.Event()

        def hang() -> None:
            with turns.turn():
                hangs.set()
                release.wait(HANGS)

        thread = threading.Thread(target=hang)
        thread.start()
        assert hangs.wait(HANGS)
        first = turns._lock
        for _ in range(3):
            with turns.turn():
                assert turns._lock is not first
        assert first.locked()
        then = turns._lock
        release.set()
        thread.join(HANGS)
        with turns.turn():
            assert turns._lock is then
