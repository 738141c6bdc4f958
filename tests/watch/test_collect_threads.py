"""How many threads look at streams: more where those who answer are slow, no more where the process
is busy, but for who would not be through in time."""

import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from dagster_sparkscale.watch.collect import BEHIND, PATIENCE, Collector, _Pace
from tests.fakes import structured
from tests.in_memory.cluster import World
from tests.waiting import HANGS

STEPS = 1000
More = Callable[..., int]


@pytest.fixture
def more(monkeypatch: pytest.MonkeyPatch) -> More:
    """How many threads to add after a moment in which so much of a processor was used, and so many
    of a thousand steps were done."""
    clock = SimpleNamespace(now=100.0, used=3.0, done=0)
    times = SimpleNamespace(monotonic=lambda: clock.now, process_time=lambda: clock.used)
    monkeypatch.setattr(sys.modules[_Pace.__module__], "time", times)
    pace, began = _Pace(STEPS), clock.now

    def after(load: float, steps: int = 0, threads: int = 1) -> int:
        clock.now += PATIENCE
        clock.used += PATIENCE * load
        clock.done += steps
        return pace.more(threads, clock.done, 20.0 - (clock.now - began))

    return after


def test_a_process_that_waits_gets_one_after_the_other(more: More) -> None:
    assert [more(0.1, 1) for _ in range(20)] == [0] * 5 + [1] * 15


@pytest.mark.parametrize("loads", [[1.0, 0.7, 1.9, 0.8], [1.0] * 9 + [0.0]])
def test_a_busy_one_gets_none_while_all_will_be_seen_in_time(
    more: More, loads: list[float]
) -> None:
    assert not any(more(load, 2) for load in loads * 40)


def test_a_busy_one_that_will_not_be_through_gets_twice_as_many(more: More) -> None:
    moments = round(BEHIND / PATIENCE) + 1
    added = [more(1.0, number % 5 == 0, threads=3) for number in range(moments)]
    assert sorted(added) == [0] * (moments - 1) + [3]


def test_nor_does_one_get_none_that_gets_nothing_done(more: More) -> None:
    assert sum(more(1.0) for _ in range(round(2 / PATIENCE))) >= 3


@pytest.fixture
def busy() -> Any:
    """Another thread of the process computes all the while."""
    stop = threading.Event()

    def compute() -> None:
        while not stop.is_set():
            sum(range(2000))

    thread = threading.Thread(target=compute)
    thread.start()
    yield
    stop.set()
    thread.join(HANGS)


def test_beside_a_thread_that_computes_slow_agents_are_asked_many_at_a_time(
    monkeypatch: pytest.MonkeyPatch, busy: None
) -> None:
    """Not until so many are asked at once does any of them answer."""
    world, streams = World(), [structured(f"s{number}") for number in range(30)]
    for stream in streams:
        world.run(stream)
    together = threading.Barrier(6)
    world.on_look = lambda kept: together.wait(HANGS) and None
    found = Collector().collect(world.cluster, streams, deadline=HANGS)
    assert [name for name, each in found.items() if each.error] == []


def test_where_the_container_has_no_thread_left_those_that_there_are_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, streams = World(), [structured(f"s{number}") for number in range(20)]
    for stream in streams:
        world.run(stream)
    begun, start = [], threading.Thread.start

    def limited(thread: threading.Thread) -> None:
        if thread.name.startswith("sparkscale-look"):
            begun.append(thread)
            if len(begun) > 1:
                raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    world.on_look = lambda kept: threading.Event().wait(0.05) and None
    found = Collector().collect(world.cluster, streams, deadline=HANGS)
    assert len(begun) == 2
    assert all(each.status for each in found.values())
