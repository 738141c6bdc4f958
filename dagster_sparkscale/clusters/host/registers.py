"""A small text in a folder that changes by compare-and-swap only, without any lock.

    <folder>/<revision>     the text as that revision has it; the highest counts

A revision is made by `link`, which succeeds once for a name, on a local disk as on a shared one,
whoever else tries at the same moment and however long ago he has read what he replaces.

What must not change: a file is never written once it has its name; the newest KEPT revisions stay.
For a revision that was removed could be made a second time, by who froze in between: so it counts
only if there are none that would have had it removed.
"""

import contextlib
import errno
import os
import secrets
from pathlib import Path

from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.host.supervisor import bytes_of, numbers_in, sync_folder
from dagster_sparkscale.clusters.records.store import Conflict

KEPT = 8
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


class Register:
    """The text in `folder`. Keeps nothing itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def newest(self) -> Path | None:
        """The file with the text as it stands; None if there never was one.

        Raises:
            OSError: the folder can't be read.
        """
        revisions = self._revisions()
        return self.folder / str(revisions[-1]) if revisions else None

    def read(self) -> tuple[Path, bytes] | None:
        """The text as it stands and its file; None if there never was one.

        Raises:
            OSError: it can't be read.
        """
        while (path := self.newest()) is not None:
            # Gone between the two looks: KEPT newer ones are there.
            with contextlib.suppress(FileNotFoundError):
                return path, bytes_of(path)
        return None

    def swap(self, revision: int, text: bytes) -> None:
        """Make `text` the revision that follows the one that was read.

        Raises:
            Conflict: somebody else has made that revision.
            ClusterError: the file system has no links.
            OSError: it can't be written.
        """
        self.folder.mkdir(mode=0o700, exist_ok=True)
        revisions = self._revisions()
        if (revisions[-1] if revisions else 0) != revision - 1:
            raise Conflict(self._changed(revision))
        path = self.folder / str(revision)
        draft = self.folder / f".{revision}.{os.getpid()}.{secrets.token_hex(4)}"
        try:
            handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            self._link(draft, path)
        finally:
            with contextlib.suppress(OSError):
                draft.unlink()
        sync_folder(self.folder)
        try:
            revisions = self._revisions()
        except OSError:
            return  # it is written; whoever writes next clears away
        if revisions and revisions[-1] >= revision + KEPT:
            with contextlib.suppress(OSError):
                path.unlink()
            raise Conflict(self._changed(revision))
        for old in revisions[:-KEPT]:
            with contextlib.suppress(OSError):
                (self.folder / str(old)).unlink()

    def _link(self, draft: Path, path: Path) -> None:
        try:
            os.link(draft, path)
        except FileExistsError:
            # Over a network the answer to a first try may have been lost.
            if draft.stat().st_nlink == 2 and draft.samefile(path):
                return
            raise Conflict(self._changed(int(path.name))) from None
        except OSError as error:
            if error.errno in _NO_LINKS:
                raise ClusterError(
                    f"{self.folder}: its file system has no hard links ({error.strerror}), by "
                    "which two starts are kept apart: put state_dir on one that has"
                ) from error
            raise

    def _revisions(self) -> list[int]:
        try:
            return numbers_in(self.folder)
        except FileNotFoundError:
            return []

    def _changed(self, revision: int) -> str:
        return f"{self.folder}: revision {revision} has been made by somebody else meanwhile"
