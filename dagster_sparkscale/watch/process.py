"""What a sensor has for as long as its process lives. Nothing of it is needed for safety: another
process reads back what it can, and learns the rest anew."""

import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from dagster_sparkscale.capability import Capabilities
from dagster_sparkscale.declare.budget import Budget
from dagster_sparkscale.operations import Operations, Streams
from dagster_sparkscale.watch.board import Shard
from dagster_sparkscale.watch.collect import Collector
from dagster_sparkscale.watch.fleet.rows import Row
from dagster_sparkscale.watch.learners import Learners
from dagster_sparkscale.watch.memory import Memory, StreamMemory
from dagster_sparkscale.watch.orphans import OrphanSearch
from dagster_sparkscale.watch.pace import Pace
from dagster_sparkscale.watch.page.operated import RecentOperations
from dagster_sparkscale.watch.page.recent import Recents
from dagster_sparkscale.watch.reads import Reads
from dagster_sparkscale.watch.spills import Spills

MANY = 100
"""Streams of a sensor from which on the collector of garbage is worth sparing."""
SETTLED = 3
"""Ticks after which a sensor has made most of what it keeps: it has read back what it had told."""
YOUNG = 50_000
"""New objects after which the collector of garbage looks through them; Python has 700. A tick makes
about so many of two hundred streams, and most are still needed when it looks."""


UNREAD = 3
"""Ticks of a process, at most, in which nothing is told of what may have begun before, while that
can't be read. After that it counts as lost."""


@dataclass
class Watch:
    """What a sensor has for as long as its process lives."""

    streams: Streams
    """All of the cluster."""
    shard: Shard
    """The part that this sensor evaluates."""
    operations: Operations
    capabilities: Capabilities
    budget: Budget | None = None
    collector: Collector = field(init=False)
    orphans: OrphanSearch = field(default_factory=OrphanSearch)
    recents: Recents = field(default_factory=Recents)
    operated: RecentOperations = field(init=False)
    learners: Learners = field(default_factory=Learners)
    spills: Spills = field(default_factory=Spills)
    pace: Pace = field(init=False)
    reads: Reads = field(default_factory=Reads)
    rows: dict[str, Row] = field(default_factory=dict)
    """Each stream as it was last seen, by name."""
    since: float | None = None
    """When the first tick began, seconds since the epoch; None: there was none."""
    cursor: str | None = None
    """What the last tick had to be remembered. Dagster may not have stored it."""
    wrote: tuple[str, Memory] | None = None
    """The cursor that the last tick has written, and what it says."""
    unread: int = 0
    """Ticks one after the other in which what other sensors remember could not be read."""
    recalled: bool = False
    """Whether what the fleet was last told of has been read since the process began, or since
    Dagster has dropped a tick."""
    unrecalled: int = 0
    """Ticks one after the other in which that could not be read."""
    seen_at: dict[str, float] = field(default_factory=dict)
    """When each stream was last seen, by the last cursor that this process has not written, seconds
    since the epoch."""
    asked_at: dict[str, float] = field(default_factory=dict)
    """When this process last asked for a run of each stream that had failed, seconds since the
    epoch, by name."""
    asking: dict[str, float] = field(default_factory=dict)
    """When the last tick asked for such runs: Dagster may not have stored it."""
    reads_ahead: bool = True
    """Whether outcomes of checks are read ahead: not after a tick in which that has failed."""
    carried: dict[str, StreamMemory] = field(default_factory=dict)
    """What was seen meanwhile of streams that the stored cursor lacks, by name."""
    ticks: int = 0
    """How many there were."""
    _evaluating: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.collector = Collector(partial(self.shard.board.snapshot, self.shard.sensor))
        self.pace = Pace(self.streams.shards)
        self.operated = RecentOperations(self.streams.cluster_key)

    def remembered(self, cursor: str | None) -> Memory:
        """What a cursor says, for one tick, which changes it. The one that the last tick has
        written need not be read: that takes a twentieth of a tick's processor time."""
        wrote, self.wrote = self.wrote, None
        asking, self.asking = self.asking, {}
        if wrote is not None and wrote[0] == cursor:
            self.asked_at |= asking
            return Memory.load(cursor) if wrote[1].left_out else wrote[1]
        memory = Memory.load(cursor)
        self.recalled = False
        self.seen_at = {name: known.last_at for name, known in memory.streams.items()}
        return memory

    @contextmanager
    def alone(self, seconds: float) -> Iterator[float]:
        """Keep any other tick from beginning; gives when this one began, by `time.monotonic()`.

        Args:
            seconds: of a tick.
        """
        began = time.monotonic()
        # Whoever tests the sensor in the UI does so in this process, too: the looks of the one
        # would count as hanging for the other.
        if not self._evaluating.acquire(timeout=seconds / 2):
            raise RuntimeError(
                f"another evaluation of this sensor has gone on for {seconds / 2:g} s, as a test "
                "of it from the UI: this one has looked at nothing"
            )
        self.reads.tick(began + seconds)
        try:
            yield began
        finally:
            self.ticks += 1
            if self.ticks == SETTLED and len(self.shard.streams) >= MANY:
                _spare_what_stays()
            self._evaluating.release()


def _spare_what_stays() -> None:
    """Have Python's collector of garbage pass over all that there is by now. The definitions of
    thousands of streams stay as long as the process, and a tick makes so much that is new that the
    collector would go through them several times in each: a third of a tick's processor time. Nor
    does it go through what is new as often as it would: a tenth."""
    gc.collect()
    gc.freeze()
    young, *others = gc.get_threshold()
    if 0 < young < YOUNG:  # 0: it is off
        gc.set_threshold(YOUNG, *others)
