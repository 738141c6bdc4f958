"""A look at a stream that hangs until a tick's time is over."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from dagster_sparkscale.watch.collect import Collector
from tests.in_memory.cluster import World
from tests.waiting import HANGS, wait_for

LOOKS = "sparkscale-look"
"""What the names of the threads that look begin with."""


@contextmanager
def hanging(world: World, stream: str, others: set[str], seconds: float) -> Iterator[None]:
    """The look at `stream` hangs. No time passes for a `Collector` until all others have been
    looked at, however busy the machine is; then `seconds` at once."""
    release, clock, begun = threading.Event(), SimpleNamespace(now=0.0), set()

    def others_done() -> bool:
        looking = [each for each in threading.enumerate() if each.name.startswith(LOOKS)]
        return begun == others and looking == [threading.current_thread()]

    def find(name: str) -> None:
        if name == stream:
            wait_for("the others to be looked at", others_done, every=0.01)
            clock.now += seconds
            release.wait(HANGS)
        begun.add(name)

    world.on_find = find
    with pytest.MonkeyPatch.context() as patch:
        module = sys.modules[Collector.__module__]
        stands = SimpleNamespace(monotonic=lambda: clock.now, process_time=lambda: 0.0)
        patch.setattr(module, "time", stands)
        try:
            yield
        finally:
            release.set()
