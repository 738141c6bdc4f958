"""Puts a checkpoint back as it was before a change of its state that was not finished."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from dagster_sparkscale.driver.log import say
from dagster_sparkscale.driver.spark.looks import first_line

from . import layout, versions
from .folder import Folder
from .journal import Begun
from .logs import read_bound, read_latest

_SHOWN = 3
_TRIES, _PAUSE_SECONDS = 5, 0.2


@dataclass(frozen=True)
class Undone:
    """What undoing came to."""

    files: int
    """Deleted."""
    ran: str | None = None
    """Why nothing was: what has come is the query's own, in words. None: it was the change's."""
    lost: tuple[str, ...] = ()
    """Files that were there before the change and are not any more, or have another size; without
    those that nobody needs, which Spark cleans up by itself."""

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
    """Delete what has come since a change began, unless the query has run since, and but for what
    stores of the run before write beside it. What was cut off in the middle of that is done again.
    """
    copies = _without_sources(folder)
    deleted = 0
    for _ in range(_TRIES):
        now = files_of(folder)
        # Only now: of a batch that begins later nothing is among those files, and none is deleted.
        if (ran := ran_on(folder, change)) and not deleted:
            return Undone(0, ran)
        gone = _of_the_change(folder, change, now, copies)
        if ran or not gone:
            return Undone(deleted, lost=_lost(folder, change, now))
        _delete(folder, change, gone)
        deleted += len(gone)
        # Once more: what was on its way may have come since.
    raise OSError(f"{folder.name}/{gone[0]} is still there after it was deleted")


def _of_the_change(
    folder: Folder, change: Begun, now: Mapping[str, int], copies: Mapping[str, int]
) -> Sequence[str]:
    """What has come by the change, of the files that are there now."""
    added = layout.added(change.files, now)
    stays = versions.of_others(
        change.files, added, change.batch, lambda name: versions.parts_of(folder.read(name))
    )
    # The names of parts are unique: what a copy has was linked from there.
    stays -= versions.parts_among(stays, copies)
    return [name for name in added if name not in stays]


def _delete(folder: Folder, change: Begun, gone: Sequence[str]) -> None:
    for _, names in groupby(gone, layout.turn):
        folder.delete_all(list(names))
    for name in _there(folder, layout.emptied(change.files, gone)):
        try:
            folder.delete_empty(name)
        except Exception as error:  # an empty folder harms nobody
            say(f"{folder.name}/{name} stays, though empty: {first_line(error)}")


def _without_sources(folder: Folder) -> Mapping[str, int]:
    """The files that copies had. They are deleted before anything else: a driver that was frozen
    finds nothing any more to move in, nor does S3 where it goes on with a copy by itself."""
    copies = _of_copies(folder)
    if folder.copies_by_itself:
        folder.delete_all([name for name in copies if not versions.is_part(name)])
        return copies
    try:
        folder.delete_below(layout.COPIES)
    except Exception as error:  # the query does not need them: no reason not to start it
        say(f"{folder.name}/{layout.COPIES} stays for now: {first_line(error)}")
    return copies


def _of_copies(folder: Folder) -> Mapping[str, int]:
    """The files of copies; none where tasks of a replay that was given up, which still write and
    rename, don't let them be listed. Then what was linked from there stays: it takes room until
    Spark cleans up, and harms nobody."""
    for _ in range(_TRIES):
        try:
            return folder.files(layout.COPIES)
        except Exception as error:  # on HDFS an error of Java
            trouble = first_line(error)
            time.sleep(_PAUSE_SECONDS)
    say(f"{folder.name}/{layout.COPIES} can't be listed: {trouble}")
    return {}


def _there(folder: Folder, folders: Sequence[str]) -> list[str]:
    """The folders that may be there, of these. In an object store a folder goes with its last file:
    there may be thousands, so that only the uppermost are looked for."""
    among = set(folders)

    def top(name: str) -> str:
        while (above := name.rpartition("/")[0]) in among:
            name = above
        return name

    parents = {top(name).rpartition("/")[0] for name in folders}
    there = {f"{parent}/{name}" for parent in parents for name in folder.names(parent)}
    return [name for name in folders if top(name) in there]


def _lost(folder: Folder, change: Begun, now: Mapping[str, int]) -> tuple[str, ...]:
    lost = layout.lost(change.files, now)
    if not lost:
        return ()

    def parts_of(name: str) -> frozenset[str] | None:
        try:
            return versions.parts_of(folder.read(name))
        except Exception as error:  # then more counts as lost
            say(f"{folder.name}/{name} can't be read: {first_line(error)}")
            return None

    cleaned = versions.cleaned_up(change.files, now, change.batch, parts_of)
    return tuple(name for name in lost if name not in cleaned)


def files_of(folder: Folder) -> Mapping[str, int]:
    """All files that a change of the state may touch.

    Not by a look at the whole checkpoint: in a copy in our own folder tasks of a replay that was
    given up may still write and rename, and a file that goes while it is looked at is an error.
    """
    found = (folder.files(name) for name in layout.TOUCHED)
    return {name: size for files in found for name, size in files.items()}


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
