"""The limits of a source in time: which was in force when. Pure."""

from collections import deque

KEPT = 200
"""Changes that are remembered: of those that come with each batch, as many batches as may wait."""


class Timeline:
    """The rates that a source has been told, in records per second; None: none.

    Args:
        first: what it had before it was told anything.
    """

    def __init__(self, first: float | None = None) -> None:
        self._changes: deque[tuple[float, float | None]] = deque([(0.0, first)], maxlen=KEPT)

    @property
    def last(self) -> float | None:
        return self._changes[-1][1]

    def tell(self, at: float, rate: float | None) -> None:
        """Note that the source got a limit at a moment, seconds since the epoch."""
        if rate != self.last:
            self._changes.append((at, rate))

    def highest(self, begin: float, end: float) -> float | None:
        """The highest rate that was in force in a span of time, both ends included; None: in a part
        of it there was none, or that is not known any more."""
        found: list[float] = []
        for number, (at, rate) in enumerate(self._changes):
            until = self._changes[number + 1][0] if number + 1 < len(self._changes) else None
            if at > end or (until is not None and until < begin):
                continue
            if rate is None:
                return None
            found.append(rate)
        return max(found) if found and self._changes[0][0] <= begin else None
