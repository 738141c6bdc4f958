"""Look at many streams at once, and never for longer than a deadline."""

import threading
import time
from collections.abc import Iterable
from queue import Empty, SimpleQueue

from dagster_sparkscale.clusters.base import ClusterManager
from dagster_sparkscale.declare.streams import Stream
from dagster_sparkscale.watch.sighting import Sighting, look

AT_ONCE = 3
"""Threads to begin with: enough to keep the interpreter busy while agents think."""
THREADS = 16
"""Threads at most, for agents that are slow or silent."""
PATIENCE = 0.02
"""Seconds without an answer before one more thread joins in. An agent answers within one or two
milliseconds."""


def collect(
    cluster: ClusterManager, streams: Iterable[Stream], *, deadline: float
) -> dict[str, Sighting]:
    """A sighting of each stream, by name. A stream not seen within `deadline` seconds is reported
    as such; the rest are not held up by it."""
    until = time.monotonic() + deadline
    timeout = min(5.0, deadline)
    todo: SimpleQueue[Stream] = SimpleQueue()
    names = []
    for stream in streams:
        names.append(stream.name)
        todo.put(stream)
    seen: dict[str, Sighting] = {}
    finished = threading.Event()

    def work() -> None:
        while time.monotonic() < until:
            try:
                stream = todo.get_nowait()
            except Empty:
                return
            seen[stream.name] = look(cluster, stream, timeout=timeout)
            if len(seen) == len(names):
                finished.set()

    threads, answered = 0, -1
    while len(seen) < len(names) and (left := until - time.monotonic()) > 0:
        waited_in_vain = len(seen) == answered
        if (threads < AT_ONCE or waited_in_vain) and threads < THREADS and not todo.empty():
            # A daemon: a look that hangs must not keep the code server from ending.
            threading.Thread(target=work, name="sparkscale-look", daemon=True).start()
            threads += 1
        answered = len(seen)
        if threads >= AT_ONCE or todo.empty():
            finished.wait(min(PATIENCE, left))
    late = f"not looked at within {deadline:g} s: too many agents are slow"
    return {name: seen.get(name) or Sighting(name, error=late) for name in names}
