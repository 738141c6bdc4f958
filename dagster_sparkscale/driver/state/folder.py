"""A checkpoint's folder, by Hadoop's FileSystem, as the session of its query reaches it."""

import os
import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from typing import Any

from dagster_sparkscale.driver.begin.fence import without_credentials
from dagster_sparkscale.driver.spark.jvm import is_missing_file
from dagster_sparkscale.driver.spark.private import is_absent

# `FileStatus.toString`. What LocatedFileStatus is made of by HDFS, S3A (`...[eTag=...]`) and ABFS
# (`...{etag='...'} LocatedFileStatus{...`) has this in it too.
_LISTED = re.compile(r"\w+Status\{path=(.*?); isDirectory=false; length=(\d+); replication=")

_S3A = "S3AFileSystem"
_HDFS = "DistributedFileSystem"
_COPIED_AT_ONCE, _A_SLOT = 16, 2
"""Files that are being written at once: those that are copied, and for each slot of the executors
one of the query's and one of the copy's. For each HDFS counts a whole block against a quota."""
_LONG_SECONDS = 2.0
_PAUSES = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Seconds before a copy is asked for again that S3 has put off; about as S3A has it."""
_NO_END = 1 << 62
"""More bytes than there are: what a file system without an end says of its room."""


def _asks_for_a_pause(error: Exception) -> bool:
    """Whether S3 has too much to do, or has failed itself."""
    java = getattr(error, "java_exception", None)
    if java is None or str(java.getClass().getSimpleName()) != "S3Exception":
        return False
    return int(java.statusCode()) in (429, 500, 503)


def listed(text: str) -> list[tuple[str, int]]:
    """Paths and sizes of the files in a list of them, as Java prints that."""
    return [(path, int(size)) for path, size in _LISTED.findall(text)]


def local_files(root: str) -> dict[str, int]:
    """Sizes of all files below a folder of this host, by their paths in it; without those that
    Hadoop keeps checksums in, which it does not show either.

    Hadoop starts a process for each local file that it lists, for its owner: milliseconds each.

    Raises:
        OSError: a folder or a file can't be looked at. What is in it would be taken for missing.
    """

    def fail(error: OSError) -> None:
        raise error

    found = {}
    for folder, _, names in os.walk(root, followlinks=True, onerror=fail):
        for name in names:
            if not (name.startswith(".") and name.endswith(".crc")):
                path = os.path.join(folder, name)
                found[os.path.relpath(path, root)] = os.path.getsize(path)
    return found


class Folder:
    """The folder `checkpoint`, with what the session has set up: credentials, file systems."""

    def __init__(self, session: Any, checkpoint: str) -> None:
        self._jvm = session._jvm
        self._slots = session._jsc.defaultParallelism
        self._hadoop = session._jvm.org.apache.hadoop.fs
        path = self._hadoop.Path(checkpoint)
        conf = session._jsparkSession.sessionState().newHadoopConf()
        self._system = path.getFileSystem(conf)
        self._root = self._system.makeQualified(path)
        self.path = str(self._root.toString())
        uri = self._root.toUri()
        self.local = str(uri.getPath()) if str(uri.getScheme()) == "file" else None
        """The folder on this host; None: it is on another file system."""
        escapes = uri.getRawPath() != uri.getPath()
        self.escaped = str(uri.toString()) if escapes else None
        """The path with escapes, such as `%20`; None: it needs none."""
        self.name = without_credentials(self.path)
        """The name for people."""

    def _at(self, name: str) -> Any:
        return self._hadoop.Path(self._root, name)

    def exists(self, name: str) -> bool:
        return bool(self._system.exists(self._at(name)))

    def names(self, folder: str) -> list[str]:
        """The names of the files and folders in `folder`; none where it is missing."""
        try:
            listed = self._system.listStatus(self._at(folder))
        except Exception as error:
            if is_missing_file(error):
                return []
            raise
        return [str(each.getPath().getName()) for each in listed]

    def files(self, folder: str = "") -> Mapping[str, int]:
        """Sizes of all files in `folder`, however deep, by their paths in the checkpoint."""
        root = self._at(folder) if folder else self._root
        if not self._system.exists(root):
            return {}
        if self.local is not None:
            prefix = f"{folder}/" if folder else ""
            below = local_files(os.path.join(self.local, folder))
            return {prefix + name: size for name, size in below.items()}
        remote = self._jvm.org.apache.hadoop.util.functional.RemoteIterators
        there = remote.toList(self._system.listFiles(root, True))
        # All in one call: there may be tens of thousands.
        told = listed(str(there.toString()))
        if len(told) != there.size():  # a file system that prints them in words of its own
            told = [(str(each.getPath().toString()), int(each.getLen())) for each in there]
        return {self._relative(path): size for path, size in told}

    def _relative(self, path: str) -> str:
        if not path.startswith(self.path + "/"):
            raise ValueError(f"{without_credentials(path)} is not in {self.name}")
        return path[len(self.path) + 1 :]

    def read(self, name: str) -> bytes | None:
        """What is in a file; None where there is none; nothing where it was cut off while it was
        written, as far as Hadoop can tell."""
        try:
            with closing(self._system.open(self._at(name))) as stream:
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        except Exception as error:
            if is_missing_file(error):
                return None
            if "ChecksumException" in str(error):
                return b""
            raise

    def write(self, name: str, content: bytes) -> None:
        """Write a file, whole once this has returned; over one that is there."""
        with closing(self._system.create(self._at(name), True)) as stream:
            stream.write(bytearray(content))

    def put(self, name: str, content: bytes) -> None:
        """Write a file where there is none: whole or not at all, whatever ends this.

        Raises:
            Exception: there is one, or it can't be written.
        """
        # S3A writes over what is there, where it is set to ask less.
        if self.exists(name):
            raise FileExistsError(f"{self.name}/{name} is there already")
        if self.copies_by_itself:  # which has a file once it is closed, and can't rename
            self.write(name, content)
            return
        draft = f"{name.rpartition('/')[0]}/.{uuid.uuid4().hex}.tmp"
        self.write(draft, content)
        if not self._system.rename(self._at(draft), self._at(name)):
            self.delete(draft)
            raise OSError(f"{self.name}/{draft} can't be renamed to {name}")

    def copy(self, name: str, to: str, pause: Callable[[float], None] = time.sleep) -> None:
        """Copy a file to where there is none. S3 does it by itself; on any other file system it is
        read and written here.

        Args:
            pause: waits so many seconds, after which S3 is asked again; raises if nobody needs the
                copy any more.

        Raises:
            FileNotFoundError: there is no such file.
            Exception: there is one of the other name, or it can't be copied.
        """
        source, target = self._at(name), self._at(to)
        if self.exists(to):
            raise FileExistsError(f"{self.name}/{to} is there already")
        try:
            if self.copies_by_itself:
                self._copied_by_s3(source, target, pause)
            else:
                self._copied_here(source, target)
        except Exception as error:
            if is_missing_file(error) or not self.exists(name):
                raise FileNotFoundError(f"{self.name}/{name}") from error
            raise

    @property
    def copies_by_itself(self) -> bool:
        """Whether it is in S3: that may go on with a copy for which nobody waits any more."""
        return str(self._system.getClass().getSimpleName()) == _S3A

    def _copied_by_s3(self, source: Any, target: Any, pause: Callable[[float], None]) -> None:
        inner = self._system.getS3AInternals()
        client = inner.getAmazonS3Client("copy of state")
        metadata = inner.getObjectMetadata(source)  # which has a span of its own
        keys = [self._system.pathToKey(each) for each in (source, target)]
        # Of this thread until it is closed: S3A may be set to refuse what is in no span.
        with closing(self._system.createSpan("op_copy", *keys)):
            # With the encryption and the rights that the session has set for what it writes.
            request = self._system.getRequestFactory().newCopyObjectRequestBuilder(*keys, metadata)
            for seconds in (*_PAUSES, None):
                try:
                    client.copyObject(request.build())
                    return
                except Exception as error:
                    if seconds is None or not _asks_for_a_pause(error):
                        raise
                pause(seconds)

    def _copied_here(self, source: Any, target: Any) -> None:
        system, conf = self._system, self._system.getConf()
        if not self._hadoop.FileUtil.copy(system, source, system, target, False, False, conf):
            raise OSError(f"{self.name}: {source.toString()} can't be copied")

    def free(self) -> int | None:
        """The bytes that there is room for; None: its file system does not tell."""
        system, root = self._resolved
        status = system.getStatus(root)
        room = int(status.getRemaining())
        if int(status.getCapacity()) <= 0 or room >= _NO_END:
            return None
        replicas = int(system.getDefaultReplication(root))
        for place in self._with_quota:
            usage = system.getQuotaUsage(place)
            block = int(system.getDefaultBlockSize(place))
            if (quota := int(usage.getSpaceQuota())) < 0:  # it was taken away
                continue
            left = quota - int(usage.getSpaceConsumed())
            written = _COPIED_AT_ONCE + _A_SLOT * int(self._slots())
            room = min(room, left - written * block * replicas)
        return max(0, room // replicas)

    @cached_property
    def _resolved(self) -> tuple[Any, Any]:
        """The file system that it is on, and its path there: a view of several has no room."""
        root = self._system.resolvePath(self._root)
        return root.getFileSystem(self._system.getConf()), root

    @cached_property
    def _with_quota(self) -> Sequence[Any]:
        """Itself and the folders that it is in, those that have a quota of HDFS for their room."""
        found: list[Any] = []
        system, place = self._resolved
        if str(system.getClass().getSimpleName()) != _HDFS:
            return found
        began = time.monotonic()
        while place.getParent() is not None:
            try:
                if int(system.getQuotaUsage(place).getSpaceQuota()) >= 0:
                    found.append(place)
            except Exception as error:
                if "AccessControlException" not in str(error):
                    raise
            # HDFS counts all the files in a folder that has none: in those above there are more.
            if time.monotonic() - began > _LONG_SECONDS:
                break
            place = place.getParent()
        return found

    def delete_below(self, folder: str) -> None:
        """Delete a folder with all that is in it; nothing to do where there is none.

        Raises:
            OSError: some of it is still there.
        """
        if not self._system.delete(self._at(folder), True) and self.exists(folder):
            raise OSError(f"{self.name}/{folder} can't be deleted")

    def delete(self, name: str) -> None:
        """Delete a file; nothing to do where there is none.

        Raises:
            OSError: the folder is still there.
        """
        if not self._system.delete(self._at(name), False) and self.exists(name):
            raise OSError(f"{self.name}/{name} can't be deleted")

    def delete_all(self, names: Sequence[str]) -> None:
        """Delete files, in any order: in an object store many by one request. Nothing to do for
        those that are not there.

        Raises:
            OSError: some may still be there.
        """
        try:
            bulk = self._system.createBulkDelete(self._root)
        except Exception as error:
            if not is_absent(error):  # before Hadoop 3.4.1
                raise
            bulk = None
        size = 1 if bulk is None else int(bulk.pageSize())
        if size == 1:  # Hadoop's own goes one after the other, and passes some failures over
            for name in names:
                self.delete(name)
            return
        for at in range(0, len(names), size):
            page = self._jvm.java.util.ArrayList()
            for name in names[at : at + size]:
                page.add(self._at(name))
            failed = bulk.bulkDelete(page)
            if not failed.isEmpty():
                why = without_credentials(str(failed.get(0).toString()))
                raise OSError(f"{failed.size()} files of {self.name} can't be deleted: {why}")

    def delete_empty(self, folder: str) -> None:
        """Delete a folder in which there is nothing; nothing to do where there is something."""
        if self.exists(folder) and not self.names(folder):
            self._system.delete(self._at(folder), False)
