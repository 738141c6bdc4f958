"""A copy of a query's checkpoint that has the new number of partitions, and catches up with the
query while that runs.

    copying            the checkpoint as of a batch that is done: its state by links, where there
                       are any (`storage.py`)
    rewriting beside   Spark's own repartitioning, of the copy
    comparing          the state of the copy with that of the batch
    catching up        the batches that have come since are run on the copy, into nothing
    ...                the query is ended between two batches (`in_place.py`)
    replaying          the last of its batches
    comparing changes  what has changed on both since they were compared whole
    moving in          what the copy has come to is linked into the checkpoint, as the batch that
                       Spark's repartitioning would have written there

What must not change: nothing but the copy is written to before `moving in`, which is as any
rewriting to the journal and its undo; and what the copy comes to is compared with what the query
has come to before it stays: by all that has changed since both were compared whole, or, where that
can't be told or is not the same, whole once more, in the checkpoint itself (`reconfigure.py`).
"""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress

from dagster_sparkscale.driver.log import say
from dagster_sparkscale.driver.spark.looks import first_line
from dagster_sparkscale.driver.state import compare, layout
from dagster_sparkscale.driver.state.fingerprint import Fingerprint, fingerprint
from dagster_sparkscale.driver.state.journal import Begun
from dagster_sparkscale.driver.state.logs import read_format, read_latest
from dagster_sparkscale.driver.state.operators import operator_names
from dagster_sparkscale.driver.state.reconfigure import Attempt
from dagster_sparkscale.driver.state.tasks import cancelled_once
from dagster_sparkscale.driver.succession.runs import Run

from . import changes, copying, limits, names, replaying
from .copied_batches import CopiedBatches
from .limits import Limits
from .storage import GivenUp, storage

_SPECULATION = "spark.speculation"
_UNKNOWN = "one that its checkpoint does not name"
_ENOUGH = 3
"""Replays after which a batch that is left may be: each takes as long as another one comes."""
_SNAPSHOT_TRIES = 3
"""Runs without rows, at most: the race that costs a snapshot may come again in one."""
_LAST_SECONDS = 30.0
"""Seconds that the last batches have at least, while the query stands still."""
_SLOWER = 4.0
"""How much longer than the slowest batch before they may take, and what is moved in than what was
copied."""
_ANOTHER = "another driver has undone or closed it meanwhile"


class NotBeside(Exception):
    """The change is not made beside the stream; the text says why. Nothing was touched."""


class StateCopy:
    """One copy, for one try to change the partitions of a query that runs.

    Args:
        run: of the query.
        earlier: its state as of a batch that is done, in which nothing is wrong.
        usual: seconds that each of its batches took before anything was done beside them.
    """

    def __init__(
        self,
        attempt: Attempt,
        run: Run,
        asked: Limits,
        earlier: Fingerprint,
        usual: Sequence[float],
    ) -> None:
        self._attempt, self._run, self._asked, self._earlier = attempt, run, asked, earlier
        self._usual = usual
        self._folder, self._plan, self._report = attempt.folder, attempt.plan, attempt.report
        known = operator_names(self._folder)
        self._operators = tuple(known.get(op, _UNKNOWN) for op, _ in sorted(earlier.stores))
        kept = str(attempt.session.conf.get(replaying.CHANGELOGS, "false"))
        # With tasks that run twice, what is different in a version and its whole may be of two of
        # them.
        twice = str(attempt.session.conf.get(_SPECULATION, "false"))
        self._tells_changes = (kept, twice) == ("true", "false") and limits.tells_changes(
            self._operators
        )
        """Whether it is known of each batch what it changes."""
        self._storage = storage(self._folder)
        self._batches = CopiedBatches(
            *(self._folder, self._storage, run, self._operators),
            made_of=earlier.batch,
            partitions=self._plan.partitions,
            changelogs=self._tells_changes,
        )
        self._size = 0
        """Bytes of the query's state as it was when it was copied."""
        self.latest = earlier
        """The query's state as of the last batch for which it was read."""
        self._compared: tuple[int, int, Fingerprint] | None = None
        """The last batches, of the query and of the copy's own, for which both were compared whole
        and were the same, and the state of the copy then."""
        self._proved = False
        self._began = time.monotonic()
        """When its making began."""
        self._copying = 0.0
        """Seconds that it took to copy the checkpoint."""

    def why_not(self, spare: bool = False) -> str | None:
        """Why the change is not to be made beside the stream, in words; None: it is.

        Args:
            spare: whether there are executors for it, so that it takes none from the batches.
        """
        return (
            limits.why_not_worth(self._earlier.rows, self._asked)
            or replaying.why_not_stored(self._attempt.session, read_format(self._folder))
            or limits.why_not_replayed(self._operators, self._asked.replay)
            or limits.why_not_read_again(replaying.sources(self._run.started.new.frame))
            or limits.why_too_busy(
                self._usual,
                replaying.interval(self._run),
                math.inf if spare else self._asked.busiest,
            )
        )

    def prepare(self) -> None:
        """Make the copy, and have it catch up with the query.

        Raises:
            NotBeside: it does not, or is not the same.
        """
        self._began = time.monotonic()
        try:
            self._make()
            with self._in_the_background():
                self._rewrite()
                self._compare(self._earlier)
            self._catch_up()
            if self._batches.done > self._earlier.batch:
                # What comes to something else when it is run again is found while the query runs.
                with self._in_the_background():
                    self.latest = self._of_query()
                    self._compare(self.latest)
                self._catch_up()
        except NotBeside:
            raise
        except Exception as error:
            why = self._for_nothing() or f"{self._report.change.step}: {first_line(error)}"
            raise NotBeside(why) from error

    def write(self, noted: Begun) -> str | None:
        """Have the state of the query's last batch in the checkpoint, in the new partitions; why it
        is not, in words; None: it is."""
        self._report.step("replaying")
        most = max(_LAST_SECONDS, _SLOWER * self._batches.slowest)
        deadline = time.monotonic() + most

        def too_late() -> str | None:
            late = time.monotonic() >= deadline
            return f"its last batches have not been replayed in {most:.0f} s" if late else None

        try:
            while self._batches.done < noted.batch:
                self._replay(noted.batch, too_late)
            self._have_snapshots(noted, too_late)
            self._report.step("comparing changes")
            self._proved = self._same_changes(noted.batch)
            self._report.step("moving in")
            # The replays may have taken a while: one that was cut off for long comes back here.
            if self._attempt.journal.begun() != noted:
                return _ANOTHER
            if self._storage.takes_room:
                self._see_to_room(1)
            copying.take_over(
                self._storage,
                self._batches.made,
                noted.batch + 1,
                self._folders(noted.after),
                (self._batches.entry(noted.batch), self._batches.commit(noted.batch)),
                self._while_moved_in(noted),
            )
        except Exception as error:
            return first_line(error)
        return None

    def _have_snapshots(self, noted: Begun, give_up: Callable[[], str | None]) -> None:
        """Run the query's last batch once more, from where it has ended, so with no row, as long as
        a partition of the copy has no snapshot of it.

        A task may lose its store to another one that has just been told which stores to unload, and
        commits one that nobody unloads, and so writes whole (SPARK-56476).
        """
        stores, tries = self._folders(noted.after), _SNAPSHOT_TRIES
        while not copying.is_whole(self._storage, self._batches.made, stores) and tries > 0:
            self._replay(noted.batch, give_up)
            tries -= 1

    def _while_moved_in(self, noted: Begun) -> GivenUp:
        """Asked while files are copied into the checkpoint: the query stands still, and this driver
        may be cut off."""
        most = max(_LAST_SECONDS, min(_SLOWER * self._moving_in, self._asked.within))
        deadline = time.monotonic() + most

        def why() -> str | None:
            if time.monotonic() >= deadline:
                return f"what it has come to has not been moved in in {most:.0f} s"
            return _ANOTHER if self._attempt.journal.begun() != noted else None

        return why

    @property
    def _moving_in(self) -> float:
        """Seconds that it may take, where there are no links, to move in what the copy has come to:
        in each partition there are about as many files, however small."""
        return self._copying * max(1.0, self._plan.partitions / self._earlier.partitions)

    @property
    def proved(self) -> Fingerprint | None:
        return self._compared[2] if self._proved and self._compared is not None else None

    def _same_changes(self, batch: int) -> bool:
        """Whether query and copy have changed the same since they were compared whole, up to
        `batch`; False also where that can't be told."""
        assert self._compared is not None
        done, last, _ = self._compared
        if (batch, self._batches.last) == (done, last):
            return True
        if batch == done or not self._tells_changes:
            return False
        session = self._attempt.offline
        both = (
            changes.Batches(self._folder.path, done, batch),
            changes.Batches(self._batches.path, last, self._batches.last),
        )
        late = time.monotonic() + _LAST_SECONDS
        try:
            with cancelled_once(
                session,
                f"sparkscale changes {self._batches.path}",
                "changes of state are compared",
                lambda: time.monotonic() >= late or self._attempt.stopping(),
            ):
                of_query, of_copy = changes.changes(session, self._earlier.stores, both)
        except Exception as error:
            say(f"{self._folder.name}: its state is compared whole: {first_line(error)}")
            return False
        return of_query == of_copy

    def drop(self) -> None:
        """Delete the copy; not another driver's, which may have begun one meanwhile."""
        try:
            self._storage.clear(self._batches.place)
            if not self._storage.sizes(layout.COPIES):
                self._storage.clear(layout.COPIES)
        except Exception as error:  # the next start does it
            say(f"a copy of {self._folder.name} stays for now: {first_line(error)}")

    def _folders(self, partitions: int) -> list[str]:
        stores = sorted(self._earlier.stores)
        return [names.folder_of(store, part) for store in stores for part in range(partitions)]

    def _make(self) -> None:
        self._report.step("copying")
        with suppress(Exception):  # left by another one
            self._storage.clear(layout.COPIES)
        folders = self._folders(self._earlier.partitions)
        began = time.monotonic()
        try:
            copying.make(
                *(self._storage, self._batches.place, self._earlier.batch, folders),
                see_to_room=self._measured,
                given_up=self._for_nothing,
            )
        except FileNotFoundError as error:
            retained = self._attempt.session.conf.get(layout.RETAINED, "100")
            raise NotBeside(
                f"a file is gone: Spark retains {retained} batches, and copying may take longer "
                f"than they do: {first_line(error)}"
            ) from error
        self._copying = time.monotonic() - began

    def _measured(self, size: int) -> None:
        self._size = size
        self._see_to_room(limits.ROOM + self._storage.takes_room)

    def _see_to_room(self, times: int = limits.ROOM) -> None:
        """
        Raises:
            NotBeside: the disk might be full before the next step is done.
        """
        if (why := limits.why_no_room(self._size, self._storage.free(), times)) is not None:
            raise NotBeside(why)

    def _in_the_background(self) -> AbstractContextManager[None]:
        """Have jobs of this thread be cancelled where they are for nothing: whoever stops the query
        or the driver does not wait for them."""
        return cancelled_once(
            self._attempt.session,
            f"sparkscale {self._batches.path}",
            f"copy of state -> {self._plan.partitions}",
            lambda: self._for_nothing() is not None,
        )

    def _rewrite(self) -> None:
        self._report.step("rewriting beside")
        self._see_to_room()
        session, after = self._attempt.offline, self._plan.partitions
        began = time.monotonic()
        session._streamingCheckpointManager.repartition(self._batches.path, after, True)
        if self._storage.takes_room:
            why = limits.why_no_shorter(self._moving_in, time.monotonic() - began)
            if why is not None:
                raise NotBeside(why)
        # What is written into the checkpoint in the end is to be as Spark would write it.
        if not self._batches.is_rewritten_as_known():
            raise NotBeside("the entries of its logs are not those that are known")

    def _compare(self, wanted: Fingerprint) -> None:
        """Compare the copy with the query's state as of the last batch that it has."""
        self._report.step("comparing")
        copy = self._batches
        now = self._fingerprint(copy.path, copy.last, self._plan.partitions)
        if found := compare.faults(wanted, now):
            raise NotBeside(f"the copy is not the same: {'; '.join(found)}")
        self._compared = copy.done, copy.last, now

    def _of_query(self) -> Fingerprint:
        self._report.step("comparing")
        done, partitions = self._batches.done, self._earlier.partitions
        now = self._fingerprint(self._folder.path, done, partitions)
        self._report.measured(now, self._plan.key_groups)
        if faults := compare.faults_of(now):
            raise NotBeside(faults[0])
        return now

    def _fingerprint(self, path: str, batch: int, partitions: int) -> Fingerprint:
        of, key_groups = sorted(self._earlier.stores), self._plan.key_groups
        return fingerprint(self._attempt.offline, path, of, batch, partitions, key_groups)

    def _catch_up(self) -> None:
        self._report.step("catching up")
        left: list[int] = []
        while True:
            if (why := self._given_up()) is not None:
                raise NotBeside(why)
            batch = read_latest(self._folder, layout.COMMITS)
            left.append(0 if batch is None else batch - self._batches.done)
            self._report.add(behind=left[-1])
            if left[-1] <= 0 or (left[-1] <= limits.NEAR and len(left) > _ENOUGH):
                return
            seconds = time.monotonic() - self._began
            if why := limits.why_never(left, seconds, self._asked.within):
                raise NotBeside(why)
            assert batch is not None
            self._replay(batch, self._for_nothing)

    def _given_up(self) -> str | None:
        if self._attempt.stopping():
            return "its driver was asked to stop"
        if not self._run.handle.isActive():
            return "its query has ended meanwhile"
        return None

    def _for_nothing(self) -> str | None:
        """Why no step of the copy is to be waited for any more: what hangs would otherwise keep the
        change, and the executors more, for good."""
        if (why := self._given_up()) is not None:
            return why
        within = self._asked.within
        late = time.monotonic() - self._began > within
        return f"its copy has not been made in {within:.0f} s" if late else None

    def _replay(self, batch: int, give_up: Callable[[], str | None]) -> None:
        self._see_to_room()  # a replay may write as much as there is
        self._batches.replay(batch, give_up)
