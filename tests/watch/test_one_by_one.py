import threading

from dagster_sparkscale.watch.one_by_one import OneByOne
from tests.waiting import HANGS


def test_one_has_the_turn_and_the_next_waits():
    turns, held, order = OneByOne(HANGS), threading.Event(), []

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


def test_who_hangs_is_waited_for_once():
    turns, release, hangs = OneByOne(0.05), threading.Event(), threading.Event()

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
