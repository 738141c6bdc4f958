"""Who watches for two drivers."""

import threading

import pytest

from tests.faults.real.watched import never_two
from tests.waiting import HANGS


@pytest.mark.parametrize("seen", [2, OSError("connection reset by peer")])
def test_two_drivers_are_seen_and_it_is_said_where_nothing_is(seen: int | OSError) -> None:
    looked = threading.Event()

    def running() -> int:
        looked.set()
        if isinstance(seen, OSError):
            raise seen
        return seen

    with pytest.raises(AssertionError, match="drivers"), never_two(running):
        assert looked.wait(HANGS)


def test_one_driver_is_as_it_should_be() -> None:
    looked = threading.Event()

    def running() -> int:
        looked.set()
        return 1

    with never_two(running):
        assert looked.wait(HANGS)
