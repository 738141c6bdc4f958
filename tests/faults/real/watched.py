"""What all faults of real parts share."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dagster_sparkscale import RecoveryPolicy
from dagster_sparkscale.observe.status import Status
from tests.e2e.deployment import Deployment
from tests.waiting import wait_for

Record = Callable[[str, object], None]
"""pytest's `record_property`: what is recorded becomes a row of docs/faults.md."""

RESTARTED_AT_ONCE = RecoveryPolicy(first_delay=0.1, longest_delay=1, limit=20, within=60)
"""However often a fault ends its driver, the stream is not given up."""


@contextmanager
def never_two(running: Callable[[], int]) -> Iterator[None]:
    """See all the while that no two drivers run.

    Args:
        running: how many do. It may fail for a moment.
    """
    over, looks = threading.Event(), Counter[int | None]()

    def look() -> None:
        while not over.wait(0.3):
            try:
                looks[running()] += 1
            except Exception:
                looks[None] += 1

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield
    finally:
        over.set()
        looking.join()
    assert max((n for n in looks if n is not None), default=0) <= 1, f"drivers: {looks}"
    assert looks.total() > 10 * looks[None], f"nobody could see how many drivers run: {looks}"


def lasts(seconds: float, holds: Callable[[], object]) -> None:
    """Have a fault last, and see that something holds all the time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        assert holds()
        time.sleep(0.5)


def recovers(record: Record, what: str, so: Callable[[], object], seconds: float = 300.0) -> None:
    """Wait until `so` is true after the end of a fault, and record how long it took."""
    begun = time.monotonic()
    wait_for(what, so, seconds, every=0.5)
    record("seconds", round(time.monotonic() - begun, 1))


def ticked(d: Deployment) -> bool:
    """Evaluate the stream as the daemon does, and carry out what that asks for."""
    for request in d.tick().run_requests or []:
        d.requested(request)
    return True


def goes_on(d: Deployment, if_so: Callable[[Status], object]) -> bool:
    """Whether a batch ends by a driver that answers, and whose answer is as `if_so` has it."""
    before = d.status()
    if before is None or not if_so(before):
        return False
    wait_for("a batch", lambda: (s := d.status()) and s.last_seq > before.last_seq)
    return True


def restarts(d: Deployment) -> str:
    """In words, how often a driver was started again, each time by a tracked run."""
    epochs = [start.epoch for start in d.cluster.history(d.stream.name)]
    assert epochs == list(range(1, len(epochs) + 1))
    if len(epochs) == 1:
        return "the same driver went on"
    return f"the driver ended; a tracked run started the next, {len(epochs) - 1} times in all"
