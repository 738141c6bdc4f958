"""Keeps two drivers off one checkpoint, by a small file in the checkpoint itself.

What Dagster remembers is lost with its state folder, and a copy of it knows nothing of what the
original started; the checkpoint is the one place that all its drivers share. So each driver writes
there who it is before its program runs, refuses to where somebody else stands who has not ended,
and ends itself when another has come in its place.

It is no lock: object stores can't swap. Two that write within the same moment are told apart by
reading again: the last one stays.
"""

import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Protocol

from .log import say

FILE = "_sparkscale_fence"
"""Spark passes over names that begin so."""
LOOK_EVERY = 30.0
"""Seconds between two looks at the file while the driver runs."""
FENCED = 75
"""Exit code of a driver that another has taken the checkpoint from."""


@dataclass(frozen=True)
class Mark:
    """Who works on a checkpoint."""

    stream: str
    record: str
    """Id of the stream's record: a stream of the same name elsewhere has another."""
    epoch: int
    key: str
    """Random, of this process."""
    since: float
    """Seconds since the epoch."""
    where: str
    """Host and process, for people."""
    ended: bool = False
    """Whether the driver has said that it is done."""


class Files(Protocol):
    """The one file, in whatever file system the checkpoint is."""

    name: str

    def read(self) -> bytes | None: ...

    def write(self, content: bytes) -> None: ...


class Taken(Exception):
    """Another driver has the checkpoint, or may have; the text says which, and what to do."""


def why_not(found: Mark | None, mine: Mark, succeeds: tuple[str, int] | None) -> str | None:
    """Why the driver of `mine` may not take a checkpoint with the mark `found`, in words. Pure.

    Args:
        succeeds: record and epoch of another stream's driver that is known to have ended.
    """
    if found is None:
        return None
    who = (
        f"driver {found.epoch} of {found.stream!r} (record {found.record}), started "
        f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(found.since))} UTC as {found.where}"
    )
    if found.record == mine.record:
        if found.epoch < mine.epoch:
            return None
        return (
            f"{who}, which is not before this driver {mine.epoch}: was an older copy of what is "
            "remembered of the stream put back, or is this a copy of the machine?"
        )
    if found.ended or (found.record, found.epoch) == succeeds:
        return None
    return f"{who}, which has not said that it has ended"


class Fence:
    """The checkpoint, as one driver takes and keeps it."""

    def __init__(self, files: Files, mine: Mark, succeeds: tuple[str, int] | None = None) -> None:
        self._files = files
        self._mine = mine
        self._succeeds = succeeds
        self._stands = False

    def take(self) -> None:
        """Write the mark of this driver, or, where nothing can be written, say so.

        Raises:
            Taken: another driver has the checkpoint, or may have.
        """
        try:
            found = self._found()
        except Exception as error:
            say(f"the checkpoint's fence {self._files.name} cannot be read: {_gist(error)}")
            return
        if reason := why_not(found, self._mine, self._succeeds):
            raise Taken(
                f"the checkpoint was last taken by {reason}. Two drivers on one checkpoint lose "
                f"data. When you are certain that no other works on it, delete {self._files.name} "
                "and start the stream again"
            )
        try:
            self._write(self._mine)
            found = self._found()
        except Exception as error:
            say(f"the checkpoint's fence {self._files.name} cannot be written: {_gist(error)}")
            return
        if found != self._mine:
            raise Taken(f"another driver has taken the checkpoint at this moment: {found}")
        self._stands = True

    def lost_to(self) -> Mark | None:
        """Who has taken the checkpoint since; None: nobody that is known of."""
        if not self._stands:
            return None
        try:
            found = self._found()
            if found is None:  # deleted by somebody who did not know that this driver lives
                self._write(self._mine)
        except Exception:
            return None  # it can't be told now
        return found if found is not None and found.key != self._mine.key else None

    def release(self) -> None:
        """Say that this driver is done with the checkpoint."""
        if self._stands and self.lost_to() is None:
            try:
                self._write(replace(self._mine, ended=True))
            except Exception as error:
                say(f"the checkpoint's fence {self._files.name} stays: {_gist(error)}")
        self._stands = False

    def watch(self, lost: Callable[[Mark], None]) -> None:
        """Look every now and then, on a thread of its own, and call `lost` once if it is."""

        def look() -> None:
            while True:
                time.sleep(LOOK_EVERY)
                if (who := self.lost_to()) is not None:
                    lost(who)
                    return

        threading.Thread(target=look, name="sparkscale-fence", daemon=True).start()

    def _found(self) -> Mark | None:
        content = self._files.read()
        return None if content is None else _mark_in(content)

    def _write(self, mark: Mark) -> None:
        self._files.write(json.dumps(asdict(mark)).encode())


def _mark_in(content: bytes) -> Mark:
    """The mark in the file; one that can't be read is somebody's who has not ended."""
    try:
        told = json.loads(content)
        mark = Mark(**{field.name: told[field.name] for field in fields(Mark)})
        if type(mark.epoch) is int and type(mark.ended) is bool and mark.since >= 0:
            return mark
    except (ValueError, KeyError, TypeError):
        pass
    return Mark("(unreadable)", "?", 0, "?", 0.0, "(unreadable)")


class HadoopFile:
    """A file by Hadoop's FileSystem, as Spark itself reaches the checkpoint."""

    def __init__(self, context: Any, checkpoint: str) -> None:
        jvm = context._jvm
        self.name = f"{checkpoint.rstrip('/')}/{FILE}"
        self._path = jvm.org.apache.hadoop.fs.Path(self.name)
        self._conf = context._jsc.sc().hadoopConfiguration()

    def read(self) -> bytes | None:
        system = self._path.getFileSystem(self._conf)
        if not system.exists(self._path):
            return None
        stream = system.open(self._path)
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def write(self, content: bytes) -> None:
        stream = self._path.getFileSystem(self._conf).create(self._path, True)
        try:
            stream.write(bytearray(content))
        finally:
            stream.close()


def mark_of(stream: str, record: str, epoch: int) -> Mark:
    """The mark of this process."""
    where = f"process {os.getpid()} on {socket.gethostname()}"
    return Mark(stream, record, epoch, secrets.token_hex(8), time.time(), where)


def _gist(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]
