"""Tells receivers their limits, by Spark's `ReceiverTracker`.

Spark's own `RateController` does it at each batch. What Spark does not do: a receiver that is
started anew, on the same executor or on another one, begins with what the settings say
(`RateLimiter.getInitialRateLimit`), so the limits are told again and again.
"""

import time
from collections.abc import Callable
from typing import Any

from dagster_sparkscale.driver.batches.dstreams import QUERY
from dagster_sparkscale.driver.receivers.tracker import placed_receivers
from dagster_sparkscale.driver.spark.features import RECEIVER_LIMITS
from dagster_sparkscale.driver.spark.graph import active_graph
from dagster_sparkscale.driver.spark.jvm import Jvm
from dagster_sparkscale.driver.spark.private import PrivateSpark

from .limiter import Limiter

AGAIN_S = 2.0
"""Seconds after which a receiver is told what it was told before. Each time is a line in the log of
its executor."""
UNLIMITED = 2**63 - 1
"""Records per second: Scala's `Long.MaxValue`, with which a receiver begins that has no limit."""


class ReceiverLimits:
    """States the limits of the receivers of the active StreamingContext. For one thread.

    Waits for the locks that `ReceiverTracker` names.
    """

    def __init__(
        self,
        jvm: Jvm,
        private: PrivateSpark,
        limiter: Limiter,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._jvm, self._private, self._limiter, self._clock = jvm, private, limiter, clock
        self._sent: dict[int, tuple[str, int, float]] = {}
        """The executor of each receiver, by stream id, the limit last sent to it, and when."""

    def state(self) -> None:
        """Tell those their limit that may not know it."""
        streaming = active_graph(self._jvm, self._private)
        if streaming is None:
            self._sent.clear()
        else:
            self._private.use(RECEIVER_LIMITS, lambda: self._state(streaming), None)

    def _state(self, streaming: Any) -> None:
        placed = placed_receivers(self._jvm, streaming)
        tracker = streaming.scheduler().receiverTracker()
        for stream, rate in self._limiter.receivers(list(placed), QUERY).items():
            executor, sent = placed[stream], self._sent.get(stream)
            if executor is None:
                self._sent.pop(stream, None)
                continue
            if rate is None and sent is None and not self._limiter.receivers_held:
                continue
            most = self._limiter.receivers_free if rate is None else rate
            whole = UNLIMITED if most is None else max(1, min(int(most), UNLIMITED))
            now = self._clock()
            if sent is None or sent[:2] != (executor, whole) or now - sent[2] >= AGAIN_S:
                tracker.sendRateUpdate(stream, whole)
                self._sent[stream] = executor, whole, now
                self._limiter.noted(stream, rate)
