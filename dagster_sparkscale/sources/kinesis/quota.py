"""Keeps calls inside what the service allows a shard, before it has to refuse them.

At most 5 GetRecords in a second and 2 MiB a second in each shard; the service sends a larger
answer, and refuses calls until that is made up for (Kinesis Data Streams quotas). Clock and sleep
are parameters, so that this is tested without waiting.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

READS_PER_SECOND = 5
BYTES_PER_SECOND = 2 * 1024 * 1024


@dataclass(slots=True)
class _Shard:
    reads: deque[float] = field(default_factory=lambda: deque(maxlen=READS_PER_SECOND))
    """When the latest reads were."""
    free_at: float = 0.0
    """When the bytes that have been read so far are paid for."""


class Quota:
    """One for a process: other processes that read the same shards are not known to it, and
    what they take is noticed by calls that are refused. Safe for threads."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._shards: dict[str, _Shard] = {}

    def before_read(self, shard: str) -> None:
        """Wait until the shard may be read again."""
        while True:
            with self._lock:
                known = self._shards.setdefault(shard, _Shard())
                now = self._clock()
                pause = known.free_at - now
                if len(known.reads) == READS_PER_SECOND:
                    pause = max(pause, known.reads[0] + 1.0 - now)
                if pause <= 0:
                    known.reads.append(now)
                    return
            self._sleep(pause)

    def after_read(self, shard: str, size: int) -> None:
        """The answer had `size` bytes: what a second does not allow has to be made up for."""
        with self._lock:
            known = self._shards.setdefault(shard, _Shard())
            # A second's worth may be taken at once.
            level = max(known.free_at, self._clock() - 1.0)
            known.free_at = level + size / BYTES_PER_SECOND


class Unlimited(Quota):
    """The quota of a service without limits, such as an emulator."""

    def before_read(self, shard: str) -> None:
        pass

    def after_read(self, shard: str, size: int) -> None:
        pass
