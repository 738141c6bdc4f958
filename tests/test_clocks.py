"""A test's clock is the library's alone."""

import threading
import time

from dagster_sparkscale.driver.begin import fence
from tests import clocks


def test_the_library_sleeps_as_the_test_says_and_another_thread_for_real(monkeypatch) -> None:
    slept: list[float] = []
    clocks.replace(monkeypatch, "sleep", slept.append)
    eval("time.sleep(3600)", vars(fence))
    others: list[None] = []
    thread = threading.Thread(target=lambda: others.append(time.sleep(0.001)))
    thread.start()
    thread.join(10)
    assert (slept, others) == ([3600], [None])
