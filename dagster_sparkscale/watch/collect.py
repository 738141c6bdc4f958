"""Look at many streams at once, and never for longer than a deadline.

First all drivers are found: one that has failed is restarted, however many agents are silent. Then
their agents are asked. A look may hang for good, as on a state folder whose server is gone, and no
thread can be ended from outside. So looks are remembered from tick to tick, for as long as the
process lives: a stream whose look still hangs is not looked at again, and hanging looks have a
limit together.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from queue import Empty, SimpleQueue

from dagster_sparkscale.clusters.base import ClusterManager, DriverState
from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.deadlines import Calls, NoAnswer
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.watch.coverage import to_ask_for
from dagster_sparkscale.watch.one_by_one import FINDING
from dagster_sparkscale.watch.sighting import Sighting, ask, find

THREADS = 64
"""Threads of a tick at most, for agents that are slow or silent: a thousand silent ones are asked
in four ticks."""
HANGING = 128
"""Threads at most, those included whose looks still hang from earlier ticks."""
PATIENCE = 0.02
"""Seconds after which one more thread joins in, where the process waits for agents."""
IDLE = 0.6
"""Processors that a process uses at most which waits. One that is busy, as with the ticks of other
sensors, is only held up by more threads, for they take turns: of ten thousand streams, ten sensors
then saw half."""
SMOOTHING = 0.1
"""Weight of the latest `PATIENCE` in how busy the process is."""
BEHIND = 0.5
"""Seconds after which there are twice as many threads, however busy the process is, where not all
streams would be seen in time."""
FINDING_PART = 0.5
"""Part of the time for finding drivers alone; then agents are asked first."""
SLOW = 1.0
"""Seconds after which a look was waited for in vain, where it has brought nothing. One that has
brought something may have been slow as this process was: on a machine that was too busy for ten
thousand streams, those that were put off for it were not seen for ten ticks."""
STRADDLES = 5.0
"""Seconds that a look takes at most which, as it ended when the tick was over, keeps its turn. Of
one that takes longer each may end so."""
PUT_OFF = 180.0
"""Seconds by which a stream waits longer for its turn if its last look was in vain: meanwhile a
thousand others can answer. No longer, for each must be seen within three minutes."""


class Collector:
    """Looks at the streams of one cluster, tick by tick; those first that have waited longest.

    Args:
        snapshot: gets what the cluster manager knows of all streams together.
    """

    def __init__(
        self, snapshot: Callable[[ClusterManager], ClusterManager] = lambda of: of.snapshot()
    ) -> None:
        self._snapshot = snapshot
        self._lock = threading.Lock()
        self._looking: dict[str, float] = {}
        """When the looks began that have not returned, by `time.monotonic()`."""
        self._turns: dict[str, float] = {}
        """Since when it is the turn of each stream; of none that this process never looked at."""
        self._calls = Calls()

    def first(self, streams: Iterable[str]) -> None:
        """Have these looked at first at the next tick: this one had no time for what was seen."""
        with self._lock:
            for name in streams:
                self._turns[name] = float("-inf")

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
        snapshot = self._calls.within("snapshot", lambda: self._snapshot(cluster), deadline)
        if isinstance(snapshot, Exception):  # the tick still has to tell that nothing can be told
            why = _why(snapshot)
            return {name: Sighting(name, error=why) for name in declared}
        seen = snapshot

        def find_one(stream: Stream) -> Sighting:
            with FINDING.turn():
                return find(seen, stream.name)

        def ask_one(stream: Stream, found: Sighting) -> Sighting:
            before = elapsed.get(stream.name) if elapsed else None
            if before is not None:
                before += time.monotonic() - began
            window = to_ask_for(stream.window, before)
            return ask(seen, stream, found, min(5.0, deadline), window)

        waiting = [stream for name, stream in declared.items() if name not in hanging]
        # Before the process began, it was looked at no later than it was evaluated.
        before = elapsed or {}
        forever = float("inf")
        waiting.sort(key=lambda s: turns.get(s.name, began - before.get(s.name, forever)))
        most = min(THREADS, HANGING - len(hanging))
        in_vain, until = set[str](), began + deadline
        found, drivers = _Looks(
            lambda stream: self._timed(stream, in_vain, until, lambda: find_one(stream)),
            lambda stream, found: self._timed(
                stream, in_vain, until, lambda: ask_one(stream, found), last=True
            ),
            *(waiting, began, until),
        ).found_by(most)
        late = f"not looked at within {deadline:.1f} s: too many agents are slow"
        if most <= 0:
            late = f"not looked at: {len(hanging)} looks hang, and no more begin until one returns"
        missing = {name: _half_seen(name, drivers.get(name), late) for name in declared}
        missing |= {name: Sighting(name, error=_hangs(began - at)) for name, at in hanging.items()}
        return {name: found.get(name) or missing[name] for name in declared}

    def _timed(
        self,
        stream: Stream,
        in_vain: set[str],
        until: float,
        half: Callable[[], Sighting],
        last: bool = False,
    ) -> Sighting:
        """The result of one half of a look at a stream.

        Args:
            in_vain: the streams of this tick one half of whose look was.
            until: when the tick is over, by `time.monotonic()`.
            last: whether it is the second half.
        """
        name, began = stream.name, time.monotonic()
        with self._lock:
            self._looking[name] = began
        sighting: Sighting | None = None
        try:
            sighting = half()
            return sighting
        finally:
            with self._lock:
                self._looking.pop(name, None)
                now = time.monotonic()
                brought = sighting is not None and sighting.error is None
                if not brought and now - began > SLOW:
                    in_vain.add(name)
                ended = last or sighting is None or sighting.is_whole
                # Who was found and is not asked yet keeps its turn, and who was seen too late.
                if name in in_vain:
                    self._turns[name] = began + PUT_OFF
                elif ended and not until < now <= began + STRADDLES:
                    self._turns[name] = began


class _Looks:
    """The looks of one tick: threads take one stream after the other, until `until`."""

    def __init__(
        self,
        find_one: Callable[[Stream], Sighting],
        ask_one: Callable[[Stream, Sighting], Sighting],
        streams: Sequence[Stream],
        began: float,
        until: float,
    ) -> None:
        self._find_one, self._ask_one = find_one, ask_one
        self._count, self._until = len(streams), until
        self._asking = began + FINDING_PART * (until - began)
        self._to_find: SimpleQueue[Stream] = SimpleQueue()
        for stream in streams:
            self._to_find.put(stream)
        self._to_ask: SimpleQueue[tuple[Stream, Sighting]] = SimpleQueue()
        self._drivers: dict[str, Sighting] = {}
        self._found: dict[str, Sighting] = {}
        self._finished = threading.Event()

    def found_by(self, most: int) -> tuple[Mapping[str, Sighting], Mapping[str, Sighting]]:
        """The sightings by name, once all are there or the time is over, and those of streams that
        are found and not asked; hanging looks add theirs later.

        Args:
            most: threads at most.
        """
        threads, pace = 0, _Pace(2 * self._count)
        while most > 0 and len(self._found) < self._count:
            left = self._until - time.monotonic()
            if left <= 0:
                break
            for _ in range(1 if threads == 0 else pace.more(threads, self._done, left)):
                if threads >= most or self._is_taken:
                    break
                # A daemon: a look that hangs must not keep the code server from ending.
                thread = threading.Thread(target=self._work, name="sparkscale-look", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the container has no more
                    most = threads
                    break
                threads += 1
            self._finished.wait(min(PATIENCE, left))
        return dict(self._found), dict(self._drivers)

    @property
    def _done(self) -> int:
        """Steps that have come to their end."""
        return len(self._found) + len(self._drivers)

    @property
    def _is_taken(self) -> bool:
        return self._to_find.empty() and self._to_ask.empty()

    def _work(self) -> None:
        while time.monotonic() < self._until:
            first, then = (self._find_next, self._ask_next)
            if time.monotonic() >= self._asking:
                first, then = then, first
            if not (first() or then()):
                return

    def _find_next(self) -> bool:
        """Find a driver; False where all are found, or being found."""
        try:
            stream = self._to_find.get_nowait()
        except Empty:
            return False
        found = self._find_one(stream)
        if found.is_whole:
            self._end(found)
        else:
            self._drivers[stream.name] = found
            self._to_ask.put((stream, found))
        return True

    def _ask_next(self) -> bool:
        """Ask an agent; False where all that are found are asked, or being asked."""
        try:
            stream, found = self._to_ask.get_nowait()
        except Empty:
            return False
        self._end(self._ask_one(stream, found))
        return True

    def _end(self, sighting: Sighting) -> None:
        self._found[sighting.stream] = sighting
        if len(self._found) == self._count:
            self._finished.set()


class _Pace:
    """How many threads more are of use."""

    def __init__(self, steps: int) -> None:
        """
        Args:
            steps: to be done in all.
        """
        self._steps = steps
        self._at = self._marked_at = time.monotonic()
        self._used, self._done = time.process_time(), 0
        self._load = 1.0
        """Processors that the process has used of late, on average."""

    def more(self, threads: int, done: int, left: float) -> int:
        """How many threads to add to `threads`.

        Args:
            done: how many steps have come to their end.
            left: seconds.
        """
        now, used = time.monotonic(), time.process_time()
        load = (used - self._used) / max(now - self._at, 1e-6)
        self._load += SMOOTHING * (load - self._load)
        self._at, self._used = now, used
        passed, behind = now - self._marked_at, False
        if passed >= BEHIND:
            behind = (self._steps - done) * passed > (done - self._done) * left
            self._marked_at, self._done = now, done
        if behind:
            return threads
        return 1 if self._load < IDLE else 0


def _half_seen(name: str, found: Sighting | None, late: str) -> Sighting:
    """What is known of a stream whose look has not come to its end."""
    if found is None:
        return Sighting(name, error=late, late=True)
    known = found.driver
    if known is not None and known.state is DriverState.FAILED:
        return found  # nothing is lacking but the end of its log, and no recovery waits for that
    return replace(found, error=late, late=True)


def _why(error: Exception) -> str:
    if isinstance(error, NoAnswer):
        return f"the cluster's streams can't be listed: {error}"
    return str(error) if isinstance(error, ClusterError) else f"{type(error).__name__}: {error}"


def _hangs(seconds: float) -> str:
    return (
        f"a look at it has hung for {seconds:.0f} s: what it reads, such as the state folder, does "
        "not answer; it is looked at again once that look returns"
    )
