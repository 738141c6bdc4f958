"""Up to where a DStream's batches may be committed. Pure.

Batches are planned ahead of being done, several may run at a time, and after one has failed the
others go on. A position is committed when every batch up to it has succeeded, never otherwise.
Once a batch has failed nothing is committed any more: a restart repeats it, and all that follows,
so that the order within a key is kept.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from dagster_sparkscale.sources.kinesis.positions import Offset

OUTAGE_S = 300.0
"""How long planning or committing may fail, at every batch anew, before the stream gives up."""


@dataclass(frozen=True)
class Planned:
    """What was planned for one batch time."""

    time_ms: int
    """The batch's time, milliseconds since the epoch."""
    end: Offset
    covered_ms: float = 0.0
    """How much of the stream's time it covers."""
    empty: bool = False
    """Whether it has nothing to read."""


@dataclass(slots=True)
class _Open:
    """A batch that is not committed."""

    batch: Planned
    begin: Offset
    done: bool = False


class Commits:
    """The batches that are planned and not committed. Not safe for threads.

    Args:
        start: what is committed already.
    """

    def __init__(self, start: Offset) -> None:
        self.committed = start
        self.end = start
        """Where the last planned batch ends, and the next begins."""
        self.failure: str | None = None
        """Why nothing is committed any more."""
        self._open: list[_Open] = []
        self._last_ms: int | None = None

    def is_past(self, time_ms: int) -> bool:
        """Whether a batch of this time comes too late to be planned. It may be asked for: by a
        window, of the time of a batch that did not need this stream."""
        return self._last_ms is not None and time_ms <= self._last_ms

    def planned(self, batch: Planned) -> None:
        if self.is_past(batch.time_ms):
            raise ValueError(f"batch {batch.time_ms} is planned after batch {self._last_ms}")
        self._open.append(_Open(batch, begin=self.end))
        self._last_ms, self.end = batch.time_ms, batch.end

    def unfinished(self) -> int:
        """How many batches with something to read are not done."""
        return sum(not each.done and not each.batch.empty for each in self._open)

    def span_of(self, time_ms: int) -> tuple[Offset, Offset] | None:
        """Where an open batch begins and ends. None: it reads nothing and moves nothing, as the
        batches do that are due while another runs, or after one has failed. Their end is that of
        the other batch, and would be a wrong position if that one fails.

        Raises:
            LookupError: no batch of this time is open.
        """
        for each in self._open:
            if each.batch.time_ms == time_ms:
                return None if each.begin == each.batch.end else (each.begin, each.batch.end)
        raise LookupError(f"there is no batch of time {time_ms} whose output is in progress")

    def succeeded(self, time_ms: int, pending: Iterable[int] = ()) -> list[Planned]:
        """The batch of `time_ms` is done, all its output operations without an error.

        What was planned for a time without output operations, as happens where a window slides by
        several batches, belongs to one that comes after it; nothing says which. So it is done when
        nothing from its time to `time_ms` is pending.

        Args:
            pending: the times of all batches that Spark has been given and that are not done.

        Returns:
            What is committed by it, oldest first.
        """
        if self.failure is not None:
            return []
        latest = max((each for each in pending if each < time_ms), default=0)
        for each in self._open:
            each.done |= latest < each.batch.time_ms <= time_ms
        committed = []
        while self._open and self._open[0].done:
            batch = self._open.pop(0).batch
            self.committed = batch.end
            committed.append(batch)
        return committed

    def failed(self, why: str) -> None:
        """Something has failed: nothing is committed any more. The first reason is kept."""
        if self.failure is None:
            self.failure = why


class Patience:
    """Bears what fails again and again for a while. Times in seconds, of any clock."""

    def __init__(self, seconds: float = OUTAGE_S) -> None:
        self._seconds = seconds
        self._since: float | None = None

    def worked(self) -> None:
        self._since = None

    def is_over(self, now: float) -> bool:
        """It has failed at `now`; whether it has for too long."""
        if self._since is None:
            self._since = now
        return now - self._since >= self._seconds
