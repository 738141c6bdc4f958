"""How files of a checkpoint come into a copy of it, and back: by links in a folder of this host, by
copies on any other file system of Hadoop.

Names are paths in the checkpoint. What must not change: no file of the checkpoint that is there is
written over, but by `write`. And where files are shared into the checkpoint itself, nothing goes on
once that has ended or failed: it may be undone then.
"""

import math
import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Protocol, TypeVar

from dagster_sparkscale.driver.state.folder import Folder

_AT_ONCE = 16
"""Files that are copied at once: on an object store each takes its time, however small it is."""
_LOOK_SECONDS = 2.0
"""How often it is asked, meanwhile, whether they are still needed."""
_TRIES = 100
"""Times that a folder is deleted while files in it go."""

T = TypeVar("T")
Pairs = Iterable[tuple[str, str]]
"""Files, and what they are to be named as well."""
GivenUp = Callable[[], str | None]
"""Why nobody needs it any more, in words; None: it is needed."""
Pause = Callable[[float], None]
"""Waits so many seconds; raises once nobody needs it any more."""


class NotNeeded(RuntimeError):
    """Copying was given up; the text says why."""


class Storage(Protocol):
    """The file system of one checkpoint."""

    @property
    def takes_room(self) -> bool:
        """Whether a file under another name takes the room of another file."""

    def sizes(self, folder: str) -> Mapping[str, int]:
        """Sizes of all files in `folder`, however deep. Its query may go on: files come and go."""

    def read(self, name: str) -> bytes:
        """What is in a file.

        Raises:
            FileNotFoundError: there is none.
        """

    def read_all(self, names: Iterable[str], given_up: GivenUp) -> Mapping[str, bytes]:
        """What is in each of these files.

        Raises:
            FileNotFoundError: there is none of these.
            NotNeeded: as of `share`.
        """

    def write(self, name: str, content: bytes) -> None:
        """Write a file."""

    def put(self, name: str, content: bytes) -> None:
        """Write a file, in a folder that is there.

        Raises:
            Exception: there is one of that name, or it can't be written.
        """

    def take_back(self, name: str, content: bytes) -> None:
        """Delete a file if this is what is in it."""

    def share(self, pairs: Pairs, given_up: GivenUp, leave: bool = False) -> None:
        """Have files that nobody changes be there under another name as well.

        Args:
            leave: what is being copied when it ends may go on: nobody else reads it there.

        Raises:
            FileNotFoundError: one is not there.
            Exception: there is one of the other name, or it can't be done.
            NotNeeded: it was given up.
        """

    def copy(self, pairs: Pairs, given_up: GivenUp) -> None:
        """Copy files that may be written over later into a copy of the checkpoint; those that have
        gone meanwhile are passed over.

        Raises:
            Exception, NotNeeded: as of `share`.
        """

    def renew(self, names: Iterable[str]) -> None:
        """Have files, and what they are shared as from now on, be the newest there."""

    def clear(self, folder: str) -> None:
        """Delete a folder with all that is in it.

        Raises:
            Exception: it can't be deleted.
        """

    def free(self) -> int | None:
        """The bytes that there is room for; None: it does not tell."""


def storage(folder: Folder) -> Storage:
    """The storage of a checkpoint."""
    return Elsewhere(folder) if folder.local is None else ThisHost(Path(folder.local))


class ThisHost:
    """A folder of this host. Spark writes each file of state once, elsewhere, and renames it: so a
    link stays as it is."""

    takes_room = False

    def __init__(self, root: Path) -> None:
        self._root = root

    def sizes(self, folder: str) -> Mapping[str, int]:
        found = {}
        for place, _, names in os.walk(self._root / folder, onerror=_unless_gone):
            for name in names:
                file = Path(place, name)
                with suppress(FileNotFoundError):
                    found[str(file.relative_to(self._root))] = file.stat().st_size
        return found

    def read(self, name: str) -> bytes:
        return (self._root / name).read_bytes()

    def read_all(self, names: Iterable[str], given_up: GivenUp) -> Mapping[str, bytes]:
        return {name: self.read(name) for name in names}

    def write(self, name: str, content: bytes) -> None:
        self._new(name).write_bytes(content)

    def put(self, name: str, content: bytes) -> None:
        draft = self._root / f"{name.rpartition('/')[0]}/.{uuid.uuid4().hex}.tmp"
        draft.write_bytes(content)
        try:
            os.link(draft, self._root / name)
        finally:
            draft.unlink()

    def take_back(self, name: str, content: bytes) -> None:
        with suppress(FileNotFoundError):
            if self.read(name) == content:
                (self._root / name).unlink()

    def share(self, pairs: Pairs, given_up: GivenUp, leave: bool = False) -> None:
        needed = _Needed(given_up)
        for name, to in pairs:
            needed.see_to_it()  # this process may have been frozen
            os.link(self._root / name, self._new(to))

    def copy(self, pairs: Pairs, given_up: GivenUp) -> None:
        for name, to in pairs:
            with suppress(FileNotFoundError):
                shutil.copyfile(self._root / name, self._new(to))

    def renew(self, names: Iterable[str]) -> None:
        for name in names:
            os.utime(self._root / name)

    def _new(self, name: str) -> Path:
        file = self._root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        return file

    def clear(self, folder: str) -> None:
        place = self._root / folder
        for _ in range(_TRIES):
            with suppress(FileNotFoundError):  # a file that has gone meanwhile: on with the others
                shutil.rmtree(place)
            if not place.exists():
                return
        raise OSError(f"{place} can't be deleted: files in it come and go")

    def free(self) -> int | None:
        disk = shutil.disk_usage(self._root)
        return disk.free if disk.total else None


def _unless_gone(error: OSError) -> None:
    """A folder that can't be listed does not count as empty."""
    if not isinstance(error, FileNotFoundError):
        raise error


class _Needed:
    """Whether what is being done is needed, which is asked now and then."""

    def __init__(self, given_up: GivenUp) -> None:
        self._given_up, self._asked = given_up, -math.inf

    def see_to_it(self) -> None:
        """
        Raises:
            NotNeeded: nobody needs it any more.
        """
        if time.monotonic() - self._asked >= _LOOK_SECONDS:
            self._asked = time.monotonic()
            if (why := self._given_up()) is not None:
                raise NotNeeded(why)


class Elsewhere:
    """HDFS, an object store: there are no links."""

    takes_room = True

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self.sizes, self.write, self.put = folder.files, folder.write, folder.put
        self.clear, self.free = folder.delete_below, folder.free

    def read(self, name: str) -> bytes:
        if (content := self._folder.read(name)) is None:
            raise FileNotFoundError(f"{self._folder.name}/{name}")
        return content

    def read_all(self, names: Iterable[str], given_up: GivenUp) -> Mapping[str, bytes]:
        found: dict[str, bytes] = {}

        def read(name: str, pause: Pause) -> None:
            found[name] = self.read(name)

        _each(read, names, given_up, leave=True)
        return found

    def share(self, pairs: Pairs, given_up: GivenUp, leave: bool = False) -> None:
        _each(lambda pair, pause: self._folder.copy(*pair, pause), pairs, given_up, leave)

    def copy(self, pairs: Pairs, given_up: GivenUp) -> None:
        def copy_if_there(pair: tuple[str, str], pause: Pause) -> None:
            try:
                self._folder.copy(*pair, pause)
            except FileNotFoundError:
                self._folder.delete(pair[1])  # half of it may be there

        _each(copy_if_there, pairs, given_up, leave=True)

    def take_back(self, name: str, content: bytes) -> None:
        if self._folder.read(name) == content:
            self._folder.delete(name)

    def renew(self, names: Iterable[str]) -> None:
        """Nothing to do: a copy is new."""


def _each(
    do: Callable[[T, Pause], None], items: Iterable[T], given_up: GivenUp, leave: bool
) -> None:
    """Do something with each of these, several at once.

    Args:
        leave: what hangs may go on when this ends. It does not keep the process from ending.
    """
    to_do, done = SimpleQueue[T](), SimpleQueue[Exception | None]()
    over = threading.Event()

    def pause(seconds: float) -> None:
        if over.wait(seconds):
            raise NotNeeded("nobody waits for it any more")

    def work() -> None:
        while not over.is_set():
            try:
                item = to_do.get_nowait()
            except Empty:
                return
            try:
                do(item, pause)
            except Exception as error:
                done.put(error)
            else:
                done.put(None)

    for item in items:
        to_do.put(item)
    left, needed = to_do.qsize(), _Needed(given_up)
    # Few: each has a connection of its own to the JVM.
    threads = [
        threading.Thread(target=work, name=f"sparkscale-copy-{number}", daemon=True)
        for number in range(min(left, _AT_ONCE))
    ]
    try:
        for thread in threads:
            thread.start()
        while left:
            needed.see_to_it()
            with suppress(Empty):
                # Not for all of them: one that hangs is to be given up, too.
                if (error := done.get(timeout=_LOOK_SECONDS)) is not None:
                    raise error
                left -= 1
    finally:
        over.set()
        for thread in threads:
            if not leave and thread.ident is not None:
                thread.join()
