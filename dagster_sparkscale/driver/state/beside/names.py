"""The names of the files in which RocksDB's provider keeps state. Pure.

    V.zip          all of version V: the names of its data files, and what RocksDB needs besides
    V.changelog    what version V has that the one before it has not
    SSTs, logs     the data files, whose names are used once

Each may have checksums beside it: Spark's, with `.crc` at the end, and Hadoop's, which are hidden.
"""

import io
import json
import re
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

DATA = {"sstFiles": ("SSTs", "dfsSstFileName"), "logFiles": ("logs", "dfsLogFileName")}
"""The data files in the metadata of a version: their folder, and the field of the name."""
_CHECKSUM = ".crc"
_VERSION = re.compile(r"(\d+)\.(zip|changelog)")


class NotKnown(ValueError):
    """A file of the state is none of those that are known; the text says which."""


def without_checksum(name: str) -> str:
    """The file that a checksum is of; any other name as it is."""
    while name.endswith(_CHECKSUM):
        name = name[: -len(_CHECKSUM)].removeprefix(".")
    return name


def with_checksums(name: str) -> tuple[str, ...]:
    """A file with the checksums that it may have."""
    return tuple(each for one in (name, name + _CHECKSUM) for each in (one, f".{one}{_CHECKSUM}"))


@dataclass(frozen=True)
class Versions:
    """The versions in the folder of one store."""

    snapshots: frozenset[int]
    changelogs: frozenset[int]

    def leading_to(self, version: int) -> tuple[str, ...]:
        """The files that a version is made of; none of a snapshot where there is none before it."""
        base = max((each for each in self.snapshots if each <= version), default=0)
        logs = sorted(each for each in self.changelogs if base < each <= version)
        return (*([f"{base}.zip"] if base else []), *(f"{each}.changelog" for each in logs))


def versions(files: Iterable[str]) -> Versions:
    """The versions among the files of one store's folder. What is being written is passed over.

    Raises:
        NotKnown: a file is of another kind, as in the second format of checkpoints.
    """
    found: dict[str, set[int]] = {"zip": set(), "changelog": set()}
    for name in files:
        plain = without_checksum(name)
        if match := _VERSION.fullmatch(plain):
            if plain == name:
                found[match[2]].add(int(match[1]))
        elif not name.startswith("."):
            raise NotKnown(f"{name!r} is none of the files that are known in a state store")
    return Versions(frozenset(found["zip"]), frozenset(found["changelog"]))


def data_files(snapshot: bytes) -> tuple[str, ...]:
    """The data files of a version, by their paths in the store's folder.

    Raises:
        NotKnown: its metadata is not what Spark writes (`RocksDBCheckpointMetadata`).
    """
    try:
        with zipfile.ZipFile(io.BytesIO(snapshot)) as packed:
            told: Any = json.loads(packed.read("metadata").decode().partition("\n")[2])
        return tuple(
            f"{folder}/{each[field]}"
            for kind, (folder, field) in DATA.items()
            for each in told.get(kind, ())
        )
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError, AttributeError) as error:
        raise NotKnown(f"a version of its state can't be read: {error}") from None


def folder_of(store: tuple[int, str], partition: int) -> str:
    """The folder of one partition of a store, in that of the state."""
    operator, name = store
    return f"{operator}/{partition}" + ("" if name == "default" else f"/{name}")
