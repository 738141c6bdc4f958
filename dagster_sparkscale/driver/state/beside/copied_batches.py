"""The batches of a query that a copy of its checkpoint has, and how it comes to have more.

The copy has numbers of its own: what it was made of, then the batch by which Spark has rewritten it
with the new number of partitions, then one for each replay.
"""

import time
from collections.abc import Callable, Sequence

from dagster_sparkscale.driver.state import layout
from dagster_sparkscale.driver.state.folder import Folder
from dagster_sparkscale.driver.succession.runs import Run

from . import copying, entries, limits
from .replaying import NotReplayed, Replays
from .storage import Storage

_LOGS = (layout.OFFSETS, layout.COMMITS)


class CopiedBatches:
    """The batches of one copy, which may not be rewritten yet.

    Args:
        run: of the query.
        operators: of the query, by the names that Spark gives them.
        made_of: the last batch of the query when it was made.
        partitions: that the copy is to have.
        changelogs: whether its state stores write what is different in each version, too.
    """

    def __init__(
        self,
        folder: Folder,
        storage: Storage,
        run: Run,
        operators: Sequence[str],
        made_of: int,
        partitions: int,
        changelogs: bool,
    ) -> None:
        self._folder, self._storage, self._run = folder, storage, run
        self._operators, self._partitions, self._changelogs = operators, partitions, changelogs
        self._replays: Replays | None = None
        self.place = copying.place_of("copy")
        """The copy's folder in the checkpoint."""
        self.done = made_of
        """The last batch of the query that it has."""
        self.rewritten = made_of + 1
        self.last = self.rewritten
        """The last batch of the copy's own."""
        self.slowest = 0.0
        """Seconds that the slowest replay took."""

    @property
    def path(self) -> str:
        return f"{self._folder.path}/{self.place}"

    @property
    def made(self) -> copying.Made:
        """What it has come to."""
        return copying.Made(self.place, self.rewritten, self.last + 1)

    def entry(self, batch: int) -> str:
        """What the offset log has of a batch, with the new number of partitions."""
        return entries.with_partitions(self._read(layout.OFFSETS, batch), self._partitions)

    def commit(self, batch: int) -> str:
        """What the commit log has of a batch."""
        return self._read(layout.COMMITS, batch)

    def is_rewritten_as_known(self) -> bool:
        """Whether Spark has written the entries of its logs that it is known to write: those of
        `entry` and `commit` will be the checkpoint's in the end."""
        return entries.same(self.entry(self.done), self._own(layout.OFFSETS)) and entries.same(
            self.commit(self.done), self._own(layout.COMMITS)
        )

    def replay(self, batch: int, give_up: Callable[[], str | None]) -> None:
        """Run the next batch of the query on the copy, or all up to `batch` as one where that comes
        to the same. One that it has is run from where it has ended, so without rows.

        Raises:
            NotReplayed: it was given up, has failed, or has come to another end.
        """
        if batch > self.done + 1:
            texts = [self._read(log, number) for log in _LOGS for number in (self.done, batch)]
            if not limits.takes_any_number(self._operators, entries.watermarked(texts)):
                batch = self.done + 1
        number = self.last + 1
        entry, commit = self.entry(batch), self.commit(batch)
        once_more = batch == self.done
        self._storage.write(f"{self.place}/{layout.OFFSETS}/{number}", entry.encode())
        copying.follow_sources(self._storage, self.place, give_up)
        if self._replays is None:
            self._replays = Replays(self._run, self.path, self._changelogs)
        began = time.monotonic()
        self._replays.replay(give_up)
        self.slowest = max(self.slowest, time.monotonic() - began)
        self.done, self.last = batch, number
        if not entries.ended_alike(self._own(layout.COMMITS), commit, entry, once_more):
            raise NotReplayed(f"batch {batch} has come to another end when it was run again")
        if self._folder.exists(f"{self.place}/{layout.OFFSETS}/{number + 1}"):
            raise NotReplayed(f"more than batch {batch} was run again")

    def _own(self, log: str) -> str:
        return self._read(f"{self.place}/{log}", self.last)

    def _read(self, log: str, number: int) -> str:
        return self._storage.read(f"{log}/{number}").decode()
