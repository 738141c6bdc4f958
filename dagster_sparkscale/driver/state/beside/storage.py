"""How files of a checkpoint come into a copy of it, and back: by links in a folder of this host, by
copies on any other file system of Hadoop.

Names are paths in the checkpoint. What must not change: no file of the checkpoint that is there is
written over, but by `write`. And where files are shared into the checkpoint itself, nothing goes on
once that has ended or failed: it may be undone then.
"""

import math
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Protocol

from dagster_sparkscale.driver.state.folder import Folder

_AT_ONCE = 16
"""Files that are copied at once: on an object store each takes its time, however small it is."""
_LOOK_SECONDS = 2.0
"""How often it is asked, meanwhile, whether they are still needed."""

Pairs = Iterable[tuple[str, str]]
"""Files, and what they are to be named as well."""
GivenUp = Callable[[], str | None]
"""Why nobody needs it any more, in words; None: it is needed."""


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

    def read_all(self, names: Iterable[str]) -> Mapping[str, bytes]:
        """What is in each of these files.

        Raises:
            FileNotFoundError: there is none of these.
        """

    def write(self, name: str, content: bytes) -> None:
        """Write a file."""

    def put(self, name: str, content: bytes) -> None:
        """Write a file, in a folder that is there.

        Raises:
            Exception: there is one of that name, or it can't be written.
        """

    def share(self, pairs: Pairs, given_up: GivenUp, leave: bool = False) -> None:
        """Have files that nobody changes be there under another name as well.

        Args:
            leave: what is being copied when it ends may go on: nobody else reads it there.

        Raises:
            FileNotFoundError: one is not there.
            Exception: there is one of the other name, or it can't be done.
            NotNeeded: it was given up. A folder of this host does not ask: it has links.
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

    def read_all(self, names: Iterable[str]) -> Mapping[str, bytes]:
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

    def share(self, pairs: Pairs, given_up: GivenUp, leave: bool = False) -> None:
        for name, to in pairs:
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
        while place.exists():
            with suppress(FileNotFoundError):  # a file that has gone meanwhile: on with the others
                shutil.rmtree(place)

    def free(self) -> int | None:
        disk = shutil.disk_usage(self._root)
        return disk.free if disk.total else None


def _unless_gone(error: OSError) -> None:
    """A folder that can't be listed does not count as empty."""
    if not isinstance(error, FileNotFoundError):
        raise error


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

    def read_all(self, names: Iterable[str]) -> Mapping[str, bytes]:
        listed = list(names)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return dict(zip(listed, pool.map(self.read, listed), strict=True))

    def share(self, pairs: Pairs, given_up: GivenUp, leave: bool = False) -> None:
        self._each(self._folder.copy, pairs, given_up, leave)

    def copy(self, pairs: Pairs, given_up: GivenUp) -> None:
        self._each(self._copy_if_there, pairs, given_up, leave=True)

    def _each(
        self, do: Callable[[str, str], None], pairs: Pairs, given_up: GivenUp, leave: bool
    ) -> None:
        left, asked = iter(pairs), -math.inf
        begun: set[Future[None]] = set()
        pool = ThreadPoolExecutor(_AT_ONCE)
        try:
            while True:
                if time.monotonic() - asked >= _LOOK_SECONDS:
                    asked = time.monotonic()
                    if (why := given_up()) is not None:
                        raise NotNeeded(why)
                begun |= {
                    pool.submit(do, *pair) for pair in islice(left, 2 * _AT_ONCE - len(begun))
                }
                if not begun:
                    return
                # Not for all of them: one that hangs is to be given up, too.
                done, begun = wait(begun, _LOOK_SECONDS, FIRST_COMPLETED)
                for each in done:
                    each.result()
        finally:
            pool.shutdown(wait=not leave, cancel_futures=True)

    def _copy_if_there(self, name: str, to: str) -> None:
        with suppress(FileNotFoundError):
            self._folder.copy(name, to)

    def renew(self, names: Iterable[str]) -> None:
        """Nothing to do: a copy is new."""
