"""Keeps two drivers off one checkpoint, by a small file in the checkpoint itself.

What Dagster remembers is lost with its state folder, and a copy of it knows nothing of what the
original started; the checkpoint is the one place that all its drivers share. So each driver writes
there who it is before its program runs, refuses to where somebody else stands who has not ended,
and ends itself when another has come in its place.

It is no lock: object stores can't swap. Of two that write within the same moment the last one
stays, and the other sees that in its first looks; of two of one record it is the newer, which
writes its mark again.
"""

import itertools
import json
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Protocol

from dagster_sparkscale.driver.log import say
from dagster_sparkscale.driver.spark.looks import first_line

FILE = "_sparkscale_fence"
"""Spark passes over names that begin so."""
FIRST_LOOKS = (1.0, 2.0, 7.0)
LOOK_EVERY = 30.0
"""Seconds between two looks at the file while the driver runs, the first few apart."""
ENDS_WITHIN = 45
"""Seconds within which a driver has ended that runs on a checkpoint which another has taken: it
sees that in its next look."""
RELEASE_WITHIN = 5.0
"""Seconds that the end of a driver waits for a file system that hangs."""
FENCED = 75
"""Exit code of a driver that may not have its checkpoint, or has lost it to another."""
UNREADABLE = ""
"""Key of a mark that can't be understood."""


@dataclass(frozen=True)
class Mark:
    """The driver that works on a checkpoint."""

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

    def has_folder(self) -> bool: ...


class Taken(Exception):
    """Another driver has the checkpoint, or may have; the text says which, and what to do."""


def why_not(found: Mark | None, mine: Mark, succeeds: tuple[str, int] | None) -> str | None:
    """Why the driver of `mine` may not take a checkpoint with the mark `found`, in words. Pure.

    Args:
        succeeds: record and epoch of the last driver, of whichever stream, that is known to have
            taken it; that one, and those of its record before it, have ended. A driver that was
            refused, or never came so far, does not count: a few such would reach any epoch.
    """
    if found is None:
        return None
    if found.key == UNREADABLE:
        return "somebody whose mark can't be understood"
    if succeeds is not None and found.record == succeeds[0] and found.epoch <= succeeds[1]:
        return None
    who = (
        f"driver {found.epoch} of {found.stream!r} (record {found.record}), started "
        f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(found.since))} UTC as {found.where}"
    )
    if found.record == mine.record:
        return (
            f"{who}, of which nothing is remembered here: was an older copy of what is remembered "
            "put back, is this a copy of the machine, or was the checkpoint moved or copied?"
        )
    return None if found.ended else f"{who}, which has not said that it has ended"


class Fence:
    """The checkpoint, as one driver takes and keeps it.

    Args:
        succeeds: the driver that may have left its mark, as in `why_not`.
        tell: called before the mark is written, so that the next start knows that it may be there.
            Where it fails, nothing is written.
    """

    def __init__(
        self,
        files: Files,
        mine: Mark,
        succeeds: tuple[str, int] | None = None,
        tell: Callable[[], None] = lambda: None,
    ) -> None:
        self._files = files
        self._mine = mine
        self._succeeds = succeeds
        self._tell = tell
        self._lock = threading.Lock()
        self._stands = self._over = False

    def take(self) -> None:
        """Write the mark of this driver, or, where nothing can be read or written, say so: it is
        tried again with each look.

        Raises:
            Taken: another driver has the checkpoint, or may have.
        """
        try:
            found = self._found()
        except Exception as error:
            self._say("cannot be read", error)
            return
        if reason := why_not(found, self._mine, self._succeeds):
            raise Taken(
                f"the checkpoint was last taken by {reason}. Two drivers on one checkpoint lose "
                f"data. When you are certain that no other works on it, delete {self._files.name} "
                "and start the stream again"
            )
        try:
            self._tell()
            self._write(self._mine)
            found = self._found()
        except Exception as error:
            self._say("cannot be written", error)
            return
        if found != self._mine and not self._is_older(found):
            raise Taken(f"another driver has taken the checkpoint at this moment: {found}")
        self._stands = True

    def outwait(self, seconds: float, given_up: Callable[[], bool]) -> None:
        """Wait, having taken the checkpoint, until a driver before that may run on has seen it and
        ended.

        Args:
            given_up: whether nobody needs the checkpoint any more.
        """
        if seconds:
            say(
                "the driver that had the checkpoint before was not seen to end: the program starts "
                f"in {seconds:g} s, when it has"
            )
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not given_up():
            time.sleep(min(0.2, seconds))

    def lost_to(self) -> Mark | None:
        """Look: who has the checkpoint instead; None: nobody that is known of."""
        with self._lock:
            try:
                return None if self._over else self._look()
            except Exception:
                return None  # it can't be told now

    def _look(self) -> Mark | None:
        found = self._found()
        if found is not None and found.key == UNREADABLE:
            return None
        if found is not None and found.key == self._mine.key:
            self._stands = True
            return None
        if self._stands and found is None:
            # Deleted by somebody who did not know that this driver lives; not with the checkpoint.
            # A file with nothing in it is not missing: somebody is just writing it.
            if self._files.read() is None and self._files.has_folder():
                self._write(self._mine)
            return None
        if self._stands and self._is_older(found):
            # It was held up between its look and its word, and knows nothing of this one. It sees
            # that in its own looks: of the two it is never this one that is the older.
            self._write(self._mine)
            return None
        # Where it does not stand, nothing could be read or written before.
        if self._stands or why_not(found, self._mine, self._succeeds):
            return found
        self._tell()
        self._write(self._mine)
        self._stands = True
        say(f"the checkpoint's fence {self._files.name} stands now")
        return None

    def _is_older(self, found: Mark | None) -> bool:
        mine = self._mine
        return found is not None and found.record == mine.record and found.epoch < mine.epoch

    def release(self) -> None:
        """Say that this driver is done with the checkpoint; not for longer than it may take."""
        thread = threading.Thread(target=self._release, daemon=True)
        thread.start()
        thread.join(RELEASE_WITHIN)
        if thread.is_alive():
            say(f"the checkpoint's fence {self._files.name} stays: no answer in {RELEASE_WITHIN} s")

    def _release(self) -> None:
        with self._lock:
            self._over = True
            try:
                found = self._found()
                if found is not None and found.key == self._mine.key:
                    self._write(replace(self._mine, ended=True))
            except Exception as error:
                self._say("stays", error)

    def _say(self, what: str, error: Exception) -> None:
        say(f"the checkpoint's fence {self._files.name} {what}: {first_line(error)}")

    def watch(self, lost: Callable[[Mark], None]) -> None:
        """Look every now and then, on a thread of its own, and call `lost` once if it is."""

        def look() -> None:
            for pause in itertools.chain(FIRST_LOOKS, itertools.repeat(LOOK_EVERY)):
                time.sleep(pause)
                if (who := self.lost_to()) is not None:
                    lost(who)
                    return

        threading.Thread(target=look, name="sparkscale-fence", daemon=True).start()

    def _found(self) -> Mark | None:
        try:
            content = self._files.read()
        except Exception as error:
            # Hadoop has read it, and it is not what was written.
            if "ChecksumException" not in str(error):
                raise
            content = b"?"
        # Nothing in it: somebody died, or ran out of room, before a word was written.
        return _mark_in(content) if content else None

    def _write(self, mark: Mark) -> None:
        self._files.write(json.dumps(asdict(mark)).encode())


def _mark_in(content: bytes) -> Mark:
    """The mark in the file; one that can't be read is somebody's who has not ended."""
    try:
        told = json.loads(content)
        mark = Mark(**{field.name: told[field.name] for field in fields(Mark)})
        if type(mark.epoch) is int and type(mark.ended) is bool and 0 <= mark.since < 1e11:
            return mark
    except (ValueError, KeyError, TypeError):
        pass
    return Mark("", "", 0, UNREADABLE, 0.0, "")


class HadoopFile:
    """A file by Hadoop's FileSystem, as Spark itself reaches the checkpoint.

    By one of its own each time: those that Hadoop keeps for all are as they were set up when they
    were first used, and the program has yet to set up its credentials.
    """

    def __init__(self, context: Any, checkpoint: str) -> None:
        self._hadoop = context._jvm.org.apache.hadoop.fs
        self._files = context._jvm.org.apache.commons.io.IOUtils
        # As the program has it: where no file system is named, Hadoop's settings say which it is.
        self._path = self._hadoop.Path(checkpoint, FILE)
        self._conf = context._jsc.sc().hadoopConfiguration()
        self.name = without_credentials(str(self._path.toString()))

    @contextmanager
    def _system(self) -> Iterator[Any]:
        system = self._hadoop.FileSystem.newInstance(self._path.toUri(), self._conf)
        try:
            yield system
        finally:
            system.close()

    def has_folder(self) -> bool:
        with self._system() as system:
            return bool(system.exists(self._path.getParent()))

    def read(self) -> bytes | None:
        with self._system() as system:
            if not system.exists(self._path):
                return None
            with closing(system.open(self._path)) as stream:
                return bytes(self._files.toByteArray(stream))  # Java's own way came with 9

    def write(self, content: bytes) -> None:
        with self._system() as system, closing(system.create(self._path, True)) as stream:
            stream.write(bytearray(content))


def without_credentials(uri: str) -> str:
    """`uri` as it may be shown. What Azure's have before the @ is the container."""
    return re.sub("^(?!abfss?:|wasbs?:)([^/]*//)[^/@]*@", r"\1", uri, flags=re.IGNORECASE)


def mark_of(stream: str, record: str, epoch: int) -> Mark:
    """The mark of this process."""
    where = f"process {os.getpid()} on {socket.gethostname()}"
    return Mark(stream, record, epoch, secrets.token_hex(8), time.time(), where)
