"""How many records to ask for at a time. Pure.

A range ends at a sequence number, and GetRecords knows no end: what a page holds beyond the end
has been read in vain and counts against the shard's 2 MiB a second. How many records are left is
estimated from the density of those read so far.
"""

from dataclasses import dataclass
from math import sqrt

MOST = 10_000
"""Records in a page at most, by the service."""
LEAST = 50
"""Fewer are not worth a call."""
FIRST = 500
"""Until more is known: some per cent of what a busy shard has in a batch."""
TRUST = 2.0
"""How many times what has been read so far is asked for at most: records come in bursts, and a
few of them say little."""
CAREFUL = 0.8
"""Share of the estimated rest to ask for, as long as the rest is large."""
SMALL = 0.3
"""A rest below this share of what has been read is asked for at once: an estimate from so many
records is not far off."""
SPREAD = 2.0
"""Standard deviations by which such a page is larger than the estimate, for records that arrive
by chance: one that just fails to reach the end takes another call."""


@dataclass(slots=True)
class Pages:
    """Sizes of the pages of one range.

    Args:
        end_ms: up to when it goes, milliseconds since the epoch; None where nothing lies beyond
            the end.
    """

    end_ms: float | None
    read: int = 0
    first_ms: float = 0.0
    last_ms: float = 0.0
    least: int = LEAST

    def saw(self, records: int, first_ms: float, last_ms: float) -> None:
        """Learn from a page of so many records, which arrived from `first_ms` to `last_ms`."""
        if not self.read:
            self.first_ms = first_ms
        self.read += records
        self.last_ms = last_ms

    def next(self) -> int:
        """How many records to ask for next."""
        if self.end_ms is None:
            return MOST
        most = min(MOST, max(FIRST, round(TRUST * self.read)))
        spent_ms, left_ms = self.last_ms - self.first_ms, self.end_ms - self.last_ms
        if not self.read or spent_ms <= 0:
            return most
        rest = self.read * max(0.0, left_ms) / spent_ms
        if rest > SMALL * self.read:
            return max(LEAST, round(min(most, CAREFUL * rest)))
        # Should it not reach the end, the rest is not what it seems: the next asks for more.
        least, self.least = self.least, 2 * self.least
        return min(most, max(least, round(rest + SPREAD * sqrt(rest))))
