"""Look at many streams at once, and never for longer than a deadline.

A look may hang for good, as on a state folder whose server is gone, and no thread can be ended from
outside. So looks are remembered from tick to tick, for as long as the process lives: a stream
whose look still hangs is not looked at again, and hanging looks have a limit together.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from queue import Empty, SimpleQueue

from dagster_sparkscale.clusters.base import ClusterManager
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.watch.coverage import to_ask_for
from dagster_sparkscale.watch.sighting import Sighting, look

AT_ONCE = 3
"""Threads to begin with: enough to keep the interpreter busy while agents think."""
THREADS = 16
"""Threads of a tick at most, for agents that are slow or silent."""
HANGING = 64
"""Threads at most, those included whose looks still hang from earlier ticks."""
PATIENCE = 0.02
"""Seconds without an answer before one more thread joins in. An agent answers within one or two
milliseconds."""
SLOW = 1.0
"""Seconds after which a look was slow."""
PUT_OFF = 300.0
"""Seconds by which a stream waits longer for its turn if its last look was slow: while one is
waited for in vain, a thousand others can answer. No longer, for each must have its turn."""


class Collector:
    """Looks at the streams of one cluster, tick by tick; those first that have waited longest."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._looking: dict[str, float] = {}
        """When the looks began that have not returned, by `time.monotonic()`."""
        self._turns: dict[str, float] = {}
        """Since when it is the turn of each stream; of none that was never looked at."""

    def collect(
        self,
        cluster: ClusterManager,
        streams: Iterable[Stream],
        *,
        deadline: float,
        elapsed: Mapping[str, float] | None = None,
    ) -> dict[str, Sighting]:
        """A sighting of each stream, by name. A stream not seen within `deadline` seconds is
        reported as such; the rest are not held up by it.

        Args:
            elapsed: by name, seconds since the tick of a stream's last evaluation began, or more.
        """
        began = time.monotonic()
        declared = {stream.name: stream for stream in streams}
        with self._lock:
            hanging = dict(self._looking)
            self._turns = {name: at for name, at in self._turns.items() if name in declared}
            turns = dict(self._turns)
        try:
            snapshot = cluster.snapshot()
        except Exception as error:  # the tick still has to tell that nothing can be told
            known = isinstance(error, ClusterError)
            why = str(error) if known else f"{type(error).__name__}: {error}"
            return {name: Sighting(name, error=why) for name in declared}

        def look_at(stream: Stream) -> Sighting:
            before = elapsed.get(stream.name) if elapsed else None
            if before is not None:
                before += time.monotonic() - began
            window = to_ask_for(stream.window, before)
            return self._look(snapshot, stream, min(5.0, deadline), window)

        waiting = [stream for name, stream in declared.items() if name not in hanging]
        waiting.sort(key=lambda stream: turns.get(stream.name, float("-inf")))
        most = min(THREADS, HANGING - len(hanging))
        found = _Looks(look_at, waiting, began + deadline).found_by(most)
        late = f"not looked at within {deadline:.3g} s: too many agents are slow"
        if most <= 0:
            late = f"not looked at: {len(hanging)} looks hang, and no more begin until one returns"

        def missing(name: str) -> Sighting:
            why = _hangs(began - hanging[name]) if name in hanging else late
            return Sighting(name, error=why)

        return {name: found.get(name) or missing(name) for name in declared}

    def _look(
        self, cluster: ClusterManager, stream: Stream, timeout: float, window: float
    ) -> Sighting:
        began = time.monotonic()
        with self._lock:
            self._looking[stream.name] = began
        try:
            return look(cluster, stream, timeout=timeout, window=window)
        finally:
            slow = time.monotonic() - began > SLOW
            with self._lock:
                self._looking.pop(stream.name, None)
                self._turns[stream.name] = began + (PUT_OFF if slow else 0.0)


class _Looks:
    """The looks of one tick: threads take one stream after the other, until `until`."""

    def __init__(
        self, look_at: Callable[[Stream], Sighting], streams: Sequence[Stream], until: float
    ) -> None:
        self._look_at, self._count, self._until = look_at, len(streams), until
        self._todo: SimpleQueue[Stream] = SimpleQueue()
        for stream in streams:
            self._todo.put(stream)
        self._found: dict[str, Sighting] = {}
        self._finished = threading.Event()

    def found_by(self, most: int) -> Mapping[str, Sighting]:
        """The sightings by name, once all are there or the time is over; hanging looks add theirs
        later.

        Args:
            most: threads at most.
        """
        threads, answered = 0, -1
        while most > 0 and len(self._found) < self._count:
            left = self._until - time.monotonic()
            if left <= 0:
                break
            waited_in_vain, all_taken = len(self._found) == answered, self._todo.empty()
            if (threads < AT_ONCE or waited_in_vain) and threads < most and not all_taken:
                # A daemon: a look that hangs must not keep the code server from ending.
                threading.Thread(target=self._work, name="sparkscale-look", daemon=True).start()
                threads += 1
            answered = len(self._found)
            if threads >= min(AT_ONCE, most) or self._todo.empty():
                self._finished.wait(min(PATIENCE, left))
        return self._found

    def _work(self) -> None:
        while time.monotonic() < self._until:
            try:
                stream = self._todo.get_nowait()
            except Empty:
                return
            self._found[stream.name] = self._look_at(stream)
            if len(self._found) == self._count:
                self._finished.set()


def _hangs(seconds: float) -> str:
    return (
        f"a look at it has hung for {seconds:.0f} s: what it reads, such as the state folder, does "
        "not answer; it is looked at again once that look returns"
    )
