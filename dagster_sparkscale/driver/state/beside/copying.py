"""The copy of a checkpoint in a folder of this host, and what is taken from it into the checkpoint.

The copy is in the library's own folder of the checkpoint, which nobody else reads. Files of state
are linked and not copied: Spark writes each of them once, elsewhere, and renames it.
"""

import json
import os
import shutil
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dagster_sparkscale.driver.state import layout

from . import names


class CannotCopy(RuntimeError):
    """No copy can be made, or taken over; the text says why."""


def place_of(root: Path, id: str) -> Path:
    """The folder of a copy of a checkpoint. A new one each time."""
    return root / layout.COPIES / f"{id}-{uuid.uuid4().hex[:8]}"


def clear(root: Path) -> None:
    """Delete all copies of a checkpoint, whoever has left them.

    Raises:
        OSError: one can't be deleted. It harms nobody.
    """
    with suppress(FileNotFoundError):
        shutil.rmtree(root / layout.COPIES)


def make(root: Path, place: Path, batch: int, stores: Iterable[str]) -> int:
    """Copy a checkpoint as batch `batch` has left it, while its query goes on. Returns the bytes of
    its state, which take no room here.

    Args:
        stores: the folders of all partitions of its stores, in that of its state.

    Raises:
        CannotCopy, NotKnown, OSError: it can't be copied.
    """
    place.mkdir(parents=True)
    # Another id: Spark takes two queries of one id for one.
    (place / layout.METADATA).write_text(json.dumps({"id": str(uuid.uuid4())}))
    for log in (layout.OFFSETS, layout.COMMITS):
        (place / log).mkdir()
        for number in (batch - 1, batch):
            if (entry := root / log / str(number)).exists():
                (place / log / str(number)).write_bytes(entry.read_bytes())
    if (root / "sources").is_dir():
        shutil.copytree(root / "sources", place / "sources", ignore=_drafts)
    state, size = layout.STATE, 0
    for folder in stores:
        size += _link_store(root / state / folder, place / state / folder, batch + 1)
    _copy_descriptions(root / state, place / state)
    return size


def free(root: Path) -> int | None:
    """The bytes that are free for a checkpoint; None: its file system does not tell."""
    disk = shutil.disk_usage(root)
    return disk.free if disk.total else None


def follow_sources(root: Path, place: Path) -> None:
    """Have a copy know what the sources of the query have noted since."""
    noted = root / "sources"
    for folder, _, files in os.walk(noted):
        to = place / "sources" / Path(folder).relative_to(noted)
        to.mkdir(parents=True, exist_ok=True)
        for name in files:
            if not (name.startswith(".") or (to / name).exists()):
                with suppress(FileNotFoundError):  # one that is compacted into another
                    shutil.copyfile(Path(folder, name), to / name)


def _drafts(_folder: str, listed: list[str]) -> list[str]:
    """What is being written, and Hadoop's checksums of it."""
    return [each for each in listed if each.startswith(".")]


def _link_store(store: Path, to: Path, version: int) -> int:
    """Link what one version of a partition of a store is made of. Returns its bytes."""
    files = [each.name for each in os.scandir(store) if each.is_file()]
    needed = names.versions(files).leading_to(version)
    if not needed:
        raise CannotCopy(f"version {version} of {store} is not there")
    size = 0
    for name in needed:
        data = names.data_files((store / name).read_bytes()) if name.endswith(".zip") else ()
        for each in (*data, name):
            _link(store / each, to / each)
            size += (to / each).stat().st_size
    return size


def _link(file: Path, to: Path) -> None:
    """Link a file, with its checksums."""
    to.parent.mkdir(parents=True, exist_ok=True)
    beside = zip(names.with_checksums(file.name), names.with_checksums(to.name), strict=True)
    for name, other in reversed(tuple(beside)):  # the file itself last
        if name == file.name or (file.parent / name).exists():
            os.link(file.parent / name, to.parent / other)


def _copy_descriptions(state: Path, to: Path) -> None:
    """Copy what describes the state: schemas and operators."""
    for folder, inner, _ in os.walk(state):
        for name in [each for each in inner if each.startswith("_")]:
            inner.remove(name)
            described = Path(folder, name)
            shutil.copytree(described, to / described.relative_to(state), ignore=_drafts)


@dataclass(frozen=True)
class Made:
    """What a copy has come to."""

    place: Path
    rewritten: int
    """The batch of the copy by which Spark has rewritten it."""
    version: int
    """The version of its state."""


def take_over(
    made: Made, root: Path, batch: int, stores: Iterable[str], entries: tuple[str, str]
) -> None:
    """Have what a copy has come to be batch `batch` of the checkpoint, in the order in which
    Spark's own repartitioning writes it. The copy stays as it is.

    Args:
        stores: the folders of all partitions of the new state.
        entries: of the batch in the offset log and the commit log.

    Raises:
        CannotCopy, NotKnown, OSError: it can't be taken over; some of it may have been.
    """
    state, place = layout.STATE, made.place
    _put(place, root / layout.OFFSETS / str(batch), entries[0])
    for folder in stores:
        store, there = place / state / folder, root / state / folder
        snapshot = store / f"{made.version}.zip"
        if not snapshot.exists():
            raise CannotCopy(f"version {made.version} of {store} is no snapshot")
        for each in names.data_files(snapshot.read_bytes()):
            # Newer than whatever Spark's cleaning up may take for left over by earlier versions.
            os.utime(store / each)
            _link(store / each, there / each)
        _link(snapshot, there / f"{batch + 1}.zip")
    _describe(place / state, root / state, made.rewritten, batch)
    _put(place, root / layout.COMMITS / str(batch), entries[1])


def _put(place: Path, file: Path, content: str) -> None:
    """Write a file whole or not at all."""
    draft = place / uuid.uuid4().hex
    draft.write_text(content)
    os.link(draft, file)


def _describe(state: Path, to: Path, rewritten: int, batch: int) -> None:
    """Have operators described as Spark's rewriting of the copy describes them. What later runs of
    the copy write has the places of its own files."""
    for operator in filter(str.isdecimal, os.listdir(state)):
        described = Path(operator, "_metadata", "v2")
        if not (to / described).is_dir():
            continue  # the first version, which is one file, and which Spark leaves as it is
        new = state / described / str(rewritten)
        if not new.exists() or layout.COPIES in new.read_text():
            raise CannotCopy(f"operator {operator} of the copy is not described by itself")
        _link(new, to / described / str(batch))
