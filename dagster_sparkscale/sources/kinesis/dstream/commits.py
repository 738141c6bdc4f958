"""The position up to which a DStream's batches may be committed. Pure.

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
    """The plan of one batch time."""

    time_ms: int
    """The batch's time, milliseconds since the epoch."""
    end: Offset
    covered_ms: float = 0.0
    """How much of the stream's time the batch covers."""
    empty: bool = False
    """Whether the batch has nothing to read."""


@dataclass(slots=True)
class _Open:
    """A batch that is not committed."""

    batch: Planned
    begin: Offset
    done: bool = False


class Commits:
    """The batches that are planned and not committed. Not safe for threads.

    Args:
        start: the positions that are committed already.
    """

    def __init__(self, start: Offset) -> None:
        self.committed = start
        self.end = start
        """The end of the last planned batch, where the next begins."""
        self.failure: str | None = None
        """Why nothing is committed any more."""
        self._open: list[_Open] = []
        self._last_ms: int | None = None

    def is_past(self, time_ms: int) -> bool:
        """Whether a batch of this time comes too late to be planned. A window may ask for one, of
        the time of a batch that did not need this stream."""
        return self._last_ms is not None and time_ms <= self._last_ms

    def planned(self, batch: Planned) -> None:
        if self.is_past(batch.time_ms):
            raise ValueError(f"batch {batch.time_ms} is planned after batch {self._last_ms}")
        self._open.append(_Open(batch, begin=self.end))
        self._last_ms, self.end = batch.time_ms, batch.end

    def unfinished(self) -> int:
        """The number of batches with something to read that are not done."""
        return sum(not each.done and not each.batch.empty for each in self._open)

    def span_of(self, time_ms: int) -> tuple[Offset, Offset] | None:
        """The begin and the end of an open batch. None: the batch reads nothing, such as one that
        is due while another runs, or after a failed one. Its end is that of the other batch, and
        would be wrong if that one fails.

        Raises:
            LookupError: no batch of this time is open.
        """
        for each in self._open:
            if each.batch.time_ms == time_ms:
                return None if each.begin == each.batch.end else (each.begin, each.batch.end)
        raise LookupError(f"there is no batch of time {time_ms} whose output is in progress")

    def succeeded(self, time_ms: int, pending: Iterable[int] = ()) -> list[Planned]:
        """Note that all output operations of the batch of `time_ms` have succeeded.

        A plan for a time without output operations, such as where a window slides by several
        batches, belongs to a later batch; nothing says which. So it is done when nothing from its
        time to `time_ms` is pending.

        Args:
            pending: the times of all batches that Spark has and that are not done.

        Returns:
            The batches that this commits, oldest first.
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
        """Commit nothing any more, as something has failed. The first reason is kept."""
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
        """Note a failure at `now`; returns whether failures have lasted too long."""
        if self._since is None:
            self._since = now
        return now - self._since >= self._seconds
