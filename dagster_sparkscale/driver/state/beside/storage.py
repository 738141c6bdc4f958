"""How files of a checkpoint come into a copy of it, and back: by links in a folder of this host, by
copies on any other file system of Hadoop.

Names are paths in the checkpoint. What must not change: no file that is there is written over, but
by `write`.
"""

import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from dagster_sparkscale.driver.spark.jvm import is_missing_file
from dagster_sparkscale.driver.state.folder import Folder

_AT_ONCE = 16
"""Files that are copied at once: on an object store each takes its time, however small it is."""

Pairs = Iterable[tuple[str, str]]
"""Files, and what they are to be named as well."""
GivenUp = Callable[[], str | None]
"""Why nobody needs it any more, in words; None: it is needed."""


class NotNeeded(RuntimeError):
    """Copying was given up; the text says why."""


class Storage(Protocol):
    """The file system of one checkpoint."""

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

    def share(self, pairs: Pairs, given_up: GivenUp) -> None:
        """Have files that nobody changes be there under another name as well.

        Raises:
            FileNotFoundError: one is not there.
            Exception: there is one of the other name, or it can't be done.
            NotNeeded: it was given up.
        """

    def copy(self, pairs: Pairs, given_up: GivenUp) -> None:
        """Copy files that may be written over later.

        Raises:
            Exception: as of `share`.
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

    def __init__(self, root: Path) -> None:
        self._root = root

    def sizes(self, folder: str) -> Mapping[str, int]:
        found = {}
        for place, _, names in os.walk(self._root / folder):
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

    def share(self, pairs: Pairs, given_up: GivenUp) -> None:
        for name, to in pairs:
            os.link(self._root / name, self._new(to))

    def copy(self, pairs: Pairs, given_up: GivenUp) -> None:
        for name, to in pairs:
            shutil.copyfile(self._root / name, self._new(to))

    def renew(self, names: Iterable[str]) -> None:
        for name in names:
            os.utime(self._root / name)

    def _new(self, name: str) -> Path:
        file = self._root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        return file

    def clear(self, folder: str) -> None:
        with suppress(FileNotFoundError):
            shutil.rmtree(self._root / folder)

    def free(self) -> int | None:
        disk = shutil.disk_usage(self._root)
        return disk.free if disk.total else None


class Elsewhere:
    """HDFS, an object store: there are no links, so that both take room."""

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

    def share(self, pairs: Pairs, given_up: GivenUp) -> None:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            begun = [pool.submit(self._copy, *pair) for pair in pairs]
            try:
                for each in as_completed(begun):
                    each.result()
                    if (why := given_up()) is not None:
                        raise NotNeeded(why)
            finally:
                pool.shutdown(cancel_futures=True)

    copy = share

    def _copy(self, name: str, to: str) -> None:
        try:
            self._folder.copy(name, to)
        except Exception as error:
            if is_missing_file(error):
                raise FileNotFoundError(f"{self._folder.name}/{name}") from error
            raise

    def renew(self, names: Iterable[str]) -> None:
        """Nothing to do: a copy is new."""
