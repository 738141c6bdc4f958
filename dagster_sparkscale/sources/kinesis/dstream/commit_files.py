"""Keeps committed positions in a folder of any file system that Hadoop knows.

Each commit is a new file with a number for a name, made by Spark's own CheckpointFileManager:
whole or not at all, and refused if the number is taken. An older file is never touched, so what
is there can be read whatever happens meanwhile.
"""

import contextlib
import json
import re
from typing import Any

from dagster_sparkscale.driver.spark.private import of_streaming
from dagster_sparkscale.sources.kinesis.positions import Offset

KEPT = 10
"""Files that are kept; only the latest is read."""


class StoreError(Exception):
    """Positions cannot be kept, or what is there cannot be read; the text says where and why."""


class StoreTaken(StoreError):
    """Another program has committed meanwhile."""


class CommitFiles:
    """
    Args:
        context: the pyspark SparkContext.
        folder: such as `s3a://bucket/positions/clicks`; for one stream of one program alone.
    """

    def __init__(self, context: Any, folder: str) -> None:
        self.folder = folder
        self._jvm = context._jvm
        self._path = self._jvm.org.apache.hadoop.fs.Path(folder)
        manager = of_streaming(self._jvm, "checkpointing", "CheckpointFileManager")
        self._files = self._do(
            "opened", manager.create, self._path, context._jsc.hadoopConfiguration()
        )
        self._latest = -1

    def load(self, stream: str) -> Offset | None:
        """The position that was saved last; None if there is none yet.

        Raises:
            StoreError: the file cannot be read.
            ValueError: the file is another stream's, or of a newer version.
        """
        numbers = self._numbers()
        if not numbers:
            return None
        self._latest = numbers[-1]
        for old in numbers[:-KEPT]:
            self._delete(old)
        file = self._file(self._latest)
        text = self._do("read", self._read, file)
        try:
            return Offset.from_json(json.loads(text), stream)
        except json.JSONDecodeError as error:
            raise StoreError(f"{file.toString()} is not JSON: {error}") from None
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"store: {file.toString()}: {error}") from None

    def save(self, offset: Offset) -> None:
        """
        Raises:
            StoreError: the file cannot be written, or another program writes here too.
        """
        file = self._file(self._latest + 1)
        self._do("written", self._write, file, json.dumps(offset.to_json()).encode())
        self._latest += 1
        self._delete(self._latest - KEPT)

    def _numbers(self) -> list[int]:
        def names() -> list[str]:
            if not self._files.exists(self._path):
                self._files.mkdirs(self._path)
            return [status.getPath().getName() for status in self._files.list(self._path)]

        return sorted(int(name) for name in self._do("listed", names) if re.fullmatch(r"\d+", name))

    def _file(self, number: int) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._path, str(number))

    def _read(self, file: Any) -> str:
        stream = self._files.open(file)
        try:
            # Java's own way came with 9.
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream)).decode()
        finally:
            stream.close()

    def _write(self, file: Any, content: bytes) -> None:
        out = self._files.createAtomic(file, False)
        try:
            out.write(content)
            out.close()
        except Exception:
            out.cancel()
            raise

    def _delete(self, number: int) -> None:
        if number >= 0:
            # Or at the next start.
            with contextlib.suppress(StoreError):
                self._do("deleted", self._files.delete, self._file(number))

    def _do(self, what: str, call: Any, *arguments: Any) -> Any:
        from py4j.protocol import Py4JJavaError

        try:
            return call(*arguments)
        except Py4JJavaError as error:
            cause = error.java_exception
            if "AlreadyExists" in cause.getClass().getName():
                raise StoreTaken(
                    f"store: {self.folder} is written to by another program too: give each a "
                    "folder of its own, and let one end before the next is started"
                ) from None
            raise StoreError(f"store: {self.folder} cannot be {what}: {cause.toString()}") from None
