"""Ways through an API server that does not answer."""

import threading
import time

import pytest

from dagster_sparkscale.clusters.kubernetes import forward
from dagster_sparkscale.clusters.kubernetes.access import Access
from tests.waiting import wait_for

NOWHERE = Access("https://127.0.0.1:1", False, dict)


def test_attempts_that_hang_are_no_more_than_so_many(monkeypatch):
    go_on = threading.Event()
    begun = []

    def hang(*_: object) -> None:
        begun.append(1)
        go_on.wait()
        raise ConnectionError("at last")

    monkeypatch.setattr(forward, "_open", hang)
    for _ in range(forward.AT_ONCE + 5):
        with pytest.raises(TimeoutError):
            forward.forwarded(NOWHERE, "streams", "a", 7080, time.monotonic() + 0.01)
    wait_for("as many to have begun", lambda: len(begun) == forward.AT_ONCE, every=0.01)
    go_on.set()

    def refused() -> bool:
        with pytest.raises(OSError) as caught:
            forward.forwarded(NOWHERE, "streams", "a", 7080, time.monotonic() + 1.0)
        return "at last" in str(caught.value)

    assert wait_for("another attempt", refused)
