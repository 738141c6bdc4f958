"""Puts a checkpoint back as it was before a change of its state that was not finished."""

from collections.abc import Mapping
from dataclasses import dataclass

from dagster_sparkscale.driver.log import say
from dagster_sparkscale.driver.spark.looks import first_line

from . import layout
from .folder import Folder
from .journal import Begun
from .logs import read_bound, read_latest

_SHOWN = 3


@dataclass(frozen=True)
class Undone:
    """What undoing came to."""

    files: int
    """Deleted."""
    ran: str | None = None
    """Why nothing was: what has come is the query's own, in words. None: it was the change's."""
    lost: tuple[str, ...] = ()
    """Files that were there before the change and are not any more, or have another size."""

    @property
    def trouble(self) -> str | None:
        """What is not as it was, in words."""
        if not self.lost:
            return None
        shown, more = ", ".join(self.lost[:_SHOWN]), len(self.lost) - _SHOWN
        return f"these files of the checkpoint have gone or changed: {shown}" + (
            f" and {more} more" if more > 0 else ""
        )


def undo(folder: Folder, change: Begun) -> Undone:
    """Delete what has come since a change began, unless the query has run since. What was cut off
    in the middle of that is done again."""
    now = files_of(folder)
    # Only now: of a batch that begins later nothing is among those files, and none is deleted.
    if ran := ran_on(folder, change):
        return Undone(0, ran)
    gone = layout.added(change.files, now)
    for name in gone:
        folder.delete(name)
    for name in layout.emptied(change.files, gone):
        try:
            folder.delete_empty(name)
        except Exception as error:  # an empty folder harms nobody
            say(f"{folder.name}/{name} stays, though empty: {first_line(error)}")
    return Undone(len(gone), lost=layout.lost(change.files, files_of(folder)))


def files_of(folder: Folder) -> Mapping[str, int]:
    """All files that a change of the state may touch."""
    return {name: size for name, size in folder.files().items() if layout.belongs(name)}


def ran_on(folder: Folder, change: Begun) -> str | None:
    """Why what has come since the change began is the query's own, in words; None: it is not."""
    committed = read_latest(folder, layout.COMMITS)
    if committed is not None and committed > change.batch + 1:
        return f"the query has run on since, to batch {committed}"
    begun = read_latest(folder, layout.OFFSETS)
    if begun is not None and begun > change.batch + 1:  # and may have given some of it away
        return f"the query has begun batch {begun} since"
    try:
        bound = read_bound(folder, change.batch + 1)
    except layout.Unreadable:
        if committed == change.batch + 1:
            raise
        return None  # cut off while it was written, and what it was written for not begun
    if bound is not None and bound.partitions != change.after:
        return f"the query has run batch {change.batch + 1} on its {change.before} partitions since"
    return None
