"""A checkpoint on this disk, without Hadoop, and the log of its query's file sink: a driver can die
between any two steps."""

import io
import json
import shutil
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dagster_sparkscale.driver.state import layout


class Died(BaseException):
    """The driver was killed: nothing after it is carried out."""


class Disk:
    """What `Folder` offers, on a folder of this disk.

    Args:
        lives: changes that are made before it dies in the middle of the next; None: it does not.
    """

    def __init__(self, root: Path, lives: int | None = None) -> None:
        self._root, self.path, self.name = root, str(root), root.name
        self.escaped = self.local = None
        self.lives = lives
        self.copies_by_itself = False

    def _change(self) -> None:
        if self.lives is not None:
            if self.lives <= 0:
                raise Died
            self.lives -= 1

    def exists(self, name: str) -> bool:
        return (self._root / name).exists()

    def names(self, folder: str) -> list[str]:
        place = self._root / folder
        return [each.name for each in place.iterdir()] if place.is_dir() else []

    def files(self, folder: str = "") -> Mapping[str, int]:
        found = (each for each in (self._root / folder).rglob("*") if each.is_file())
        return {str(each.relative_to(self._root)): each.stat().st_size for each in found}

    def read(self, name: str) -> bytes | None:
        file = self._root / name
        return file.read_bytes() if file.is_file() else None

    def write(self, name: str, content: bytes) -> None:
        file = self._root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._change()
        except Died:
            file.write_bytes(content[: len(content) // 2])  # torn
            raise
        file.write_bytes(content)

    def put(self, name: str, content: bytes) -> None:
        if self.exists(name):
            raise FileExistsError(name)
        self._change()
        (self._root / name).write_bytes(content)

    def copy(self, name: str, to: str, pause: Callable[[float], None] = time.sleep) -> None:
        content = (self._root / name).read_bytes()
        (self._root / to).parent.mkdir(parents=True, exist_ok=True)
        self.put(to, content)

    def free(self) -> int | None:
        return None

    def delete_below(self, folder: str) -> None:
        self._change()
        shutil.rmtree(self._root / folder, ignore_errors=True)

    def pass_over(self, batch: int) -> None:
        """Have the sink's log note that a batch has written nothing: whole or not at all."""
        self._change()
        log = _sink(self._root)
        log.mkdir(exist_ok=True)
        (log / str(batch)).touch()

    def delete(self, name: str) -> None:
        self._change()
        (self._root / name).unlink(missing_ok=True)

    def delete_all(self, names: Sequence[str]) -> None:
        for name in names:
            self.delete(name)

    def delete_empty(self, folder: str) -> None:
        self._change()
        place = self._root / folder
        if place.is_dir() and not any(place.iterdir()):
            place.rmdir()


def _sink(root: Path) -> Path:
    return root.with_name(f"{root.name} sink")


def passed_over(root: Path) -> list[int]:
    """The batches of which the sink's log says that they have written nothing."""
    log = _sink(root)
    return sorted(int(each.name) for each in log.iterdir()) if log.is_dir() else []


def entry(partitions: int, provider: str = layout.ROCKSDB) -> str:
    """An entry of the offset log."""
    return (
        'v1\n{"batchWatermarkMs":0,"conf":{'
        f'"{layout.PARTITIONS}":"{partitions}","{layout.PROVIDER}":"{provider}"}}}}\n{{"at":7}}'
    )


def put(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def checkpoint(root: Path, partitions: int = 4, batches: int = 3) -> None:
    """A query's, with all its batches done."""
    put(root, "metadata", "{}")
    put(root, "sources/0/0", "v1")
    for batch in range(batches):
        put(root, f"offsets/{batch}", entry(partitions))
        put(root, f"commits/{batch}", "v1\n{}")
        for partition in range(partitions):
            put(root, f"state/0/{partition}/{batch + 1}.changelog", f"batch {batch}")


def rewritten(partitions: int, batch: int = 2) -> dict[str, bytes]:
    """What Spark's repartitioning leaves after the last batch, in its order."""
    return {
        **{f"state/0/{part}/{batch + 2}.zip": b"all of it" for part in range(partitions)},
        "state/0/_metadata/v2/3": b"v2",
        f"offsets/{batch + 1}": entry(partitions).encode(),
        f"commits/{batch + 1}": b"v1\n{}",
    }


def rewrite(disk: Disk, partitions: int, batch: int = 2) -> None:
    for name, written in rewritten(partitions, batch).items():
        disk.write(name, written)


def content(root: Path) -> dict[str, bytes]:
    """All files but ours, by their paths."""
    return {
        str(each.relative_to(root)): each.read_bytes()
        for each in root.rglob("*")
        if each.is_file() and layout.OURS not in each.parts
    }


def snapshot(*parts: str) -> bytes:
    """One of a state store, which tells the names of its parts."""
    made = io.BytesIO()
    named = [{"localFileName": "1.sst", "dfsSstFileName": part, "sizeBytes": 4} for part in parts]
    with zipfile.ZipFile(made, "w") as files:
        files.writestr("metadata", "v1\n" + json.dumps({"sstFiles": named, "numKeys": 1}))
    return made.getvalue()
