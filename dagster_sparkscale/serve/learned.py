"""What the policies have learned of the streams, read back from the event log now and then: by it
they decide, and only the sensor has it at hand.
"""

import time
from collections.abc import Iterable, Mapping, Sequence

from dagster import DagsterInstance

from dagster_sparkscale.declare.learner import Learner
from dagster_sparkscale.declare.stream import Stream
from dagster_sparkscale.observe.minutes import Minute
from dagster_sparkscale.watch.learners import learned_so_far

EVERY = 60.0
"""Seconds between two readings of a stream at least: each is of six to twelve hours of minutes."""


class Learned:
    """What is known of the streams of one cluster."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, Learner | None]] = {}
        """What the policy of each stream has learned, and when that was read, by
        `time.monotonic()`. None: it learns nothing."""

    def read_on(
        self,
        instance: DagsterInstance,
        streams: Iterable[Stream],
        pending: Mapping[str, Sequence[Minute]],
        now: float,
        seconds: float,
    ) -> Mapping[str, Learner]:
        """What the policies have learned, by stream, of those that were read at least once: as many
        are read anew as `seconds` are enough for, those first that have waited longest.

        Args:
            pending: of each stream, the minutes that the sensor has seen and not stored yet.
            now: seconds since the epoch.
        """
        until = time.monotonic() + seconds
        for stream in sorted(streams, key=lambda each: self._read_at(each.name)):
            at = time.monotonic()
            if at >= until:
                break
            if at - self._read_at(stream.name) >= EVERY:
                found = learned_so_far(instance, [stream], now, until - at, pending)
                self._known[stream.name] = at, found.get(stream.name)
        return {name: each for name, (_, each) in self._known.items() if each is not None}

    def _read_at(self, stream: str) -> float:
        return self._known[stream][0] if stream in self._known else float("-inf")
