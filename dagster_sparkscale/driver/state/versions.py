"""The files of RocksDB's state stores, by their names and by what snapshots tell. Pure.

state/OPERATOR/PARTITION[/STORE]/
    V.zip, V_ID.zip               a snapshot of version V, which batch V - 1 has left
    V.changelog, V_ID.changelog   what is different in version V
    SSTs/NAME.sst, logs/NAME.log  the parts of snapshots; a snapshot tells the names of its own

Stores clean up beside a query, and for a minute or so after its end (`StateStore.doMaintenance`).
Where there are changelogs they write snapshots there and then, parts first. What is not needed for
the versions that are retained they delete: all before some snapshot, and the parts of none
(`RocksDBFileManager.deleteOldVersions`, Spark 4.3).
"""

import io
import json
import re
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .layout import COMMITS, OFFSETS, STATE

_VERSION = re.compile(r"(\d+)(?:_[^.]+)?\.(zip|changelog)(\.crc)?")
_BATCH = re.compile(r"(\d+)(?:\.crc)?")
_PARTS = ("SSTs", "logs")
_TOLD = "metadata"
"""The file in a snapshot that names its parts (`RocksDBCheckpointMetadata`)."""

PartsOf = Callable[[str], frozenset[str] | None]
"""The names of a snapshot's parts, given its path; None: it can't be read."""


@dataclass(frozen=True)
class StateFile:
    store: str
    """The folder of the store."""
    kind: str
    """zip, changelog, part; or sum, which is one of the first two's
    (`spark.sql.streaming.checkpoint.fileChecksum.enabled`)"""
    version: int = -1
    """Not known of a part."""


def state_file(name: str) -> StateFile | None:
    """The kind of a file, by its path in the checkpoint; None: it is none of a store's."""
    top, *places, file = name.split("/")
    if top != STATE or len(places) < 2 or not (places[0] + places[1]).isdecimal():
        return None
    if places[-1] in _PARTS:
        return StateFile("/".join((top, *places[:-1])), "part")
    if (found := _VERSION.fullmatch(file)) is None:
        return None
    kind = "sum" if found[3] else found[2]
    return StateFile("/".join((top, *places)), kind, int(found[1]))


def parts_of(snapshot: bytes | None) -> frozenset[str] | None:
    """The names of a snapshot's parts, by its content; None: it is none that is whole."""
    try:
        with zipfile.ZipFile(io.BytesIO(snapshot or b"")) as files:
            told: Any = json.loads(files.read(_TOLD).partition(b"\n")[2])
        return frozenset(
            str(each[name])
            for kind, name in (("sstFiles", "dfsSstFileName"), ("logFiles", "dfsLogFileName"))
            for each in told.get(kind) or ()
        )
    except (zipfile.BadZipFile, zlib.error, KeyError, ValueError, TypeError, AttributeError):
        return None


def cleaned_up(
    before: Mapping[str, int], now: Mapping[str, int], batch: int, parts_of: PartsOf
) -> frozenset[str]:
    """The files that have gone and that nobody needs who goes on from what `batch` has left: Spark
    deletes such files by itself.

    Args:
        before: sizes by paths.
    """
    gone = before.keys() - now.keys()
    found = {name for name in gone if _is_draft(name)}
    for log in (OFFSETS, COMMITS):
        there = {number for name in before.keys() & now.keys() if (number := _of(log, name)) >= 0}
        # A start looks at the last two.
        first = min(there | {batch - 1})
        found |= {n for n in gone if batch in there and 0 <= _of(log, n) < first}
    stores = _by_store(gone)
    whole = {name for name, size in now.items() if before.get(name, size) == size}
    for store, stays in _by_store(whole).items():
        if store in stores:
            found |= _not_needed(stores[store], stays, batch + 1, parts_of)
    return frozenset(found)


def _not_needed(
    gone: Mapping[str, StateFile], stays: Mapping[str, StateFile], version: int, parts_of: PartsOf
) -> set[str]:
    """The files that have gone of a store and that a version does not need: what is older than the
    snapshot that it is made from, if that is whole."""
    snapshots = {n: f.version for n, f in stays.items() if f.kind == "zip" and f.version <= version}
    base = max(snapshots.values(), default=None)
    if base is None:
        return set()
    there = {_last(name) for name, file in stays.items() if file.kind == "part"}
    needed: set[str] = set()
    for name in (n for n, number in snapshots.items() if number == base):
        parts = parts_of(name)
        if parts is None or not parts <= there:
            return set()
        needed |= parts
    return {
        name
        for name, file in gone.items()
        if (_last(name) not in needed if file.kind == "part" else file.version < base)
    }


def of_others(
    before: Iterable[str], added: Iterable[str], batch: int, parts_of: PartsOf
) -> frozenset[str]:
    """The files that have come since a change began, and may be of the stores of the run that had
    ended. They write snapshots of versions up to the one that `batch` has left; the change
    writes the next one. Parts that no snapshot of the change names may be of a snapshot that comes
    in a moment: without them the state could not be loaded any more.
    """
    with_changelogs = {s for s, files in _by_store(before).items() if _has_changelogs(files)}
    found: set[str] = set()
    for store, files in _by_store(added).items():
        if store not in with_changelogs:
            continue  # then a snapshot is whole when its batch is
        found |= {name for name, file in files.items() if 0 <= file.version <= batch + 1}
        if parts := {name for name, file in files.items() if file.kind == "part"}:
            own = (n for n, f in files.items() if f.kind == "zip" and f.version > batch + 1)
            named = frozenset[str]().union(*(parts_of(name) or () for name in own))
            found |= {name for name in parts if _part(name) not in named}
    return frozenset(found)


def is_part(name: str) -> bool:
    """Whether a file of a store, in whatever folder, is a part of snapshots."""
    return _last(name.rpartition("/")[0]) in _PARTS


def parts_among(names: Iterable[str], others: Iterable[str]) -> frozenset[str]:
    """The files among these that are parts of snapshots and have the name of one of `others`."""
    known = {_last(name) for name in others}
    parts = (n for n in names if (file := state_file(n)) is not None and file.kind == "part")
    return frozenset(name for name in parts if _last(name) in known)


def _has_changelogs(files: Mapping[str, StateFile]) -> bool:
    return any(file.kind == "changelog" for file in files.values())


def _part(name: str) -> str:
    """The name of a part, given its own path or that of Hadoop's checksum of it."""
    file = _last(name)
    return file[1:-4] if file.startswith(".") and file.endswith(".crc") else file


def _last(name: str) -> str:
    return name.rpartition("/")[2]


def _by_store(names: Iterable[str]) -> Mapping[str, Mapping[str, StateFile]]:
    found: dict[str, dict[str, StateFile]] = defaultdict(dict)
    for name in names:
        if (file := state_file(name)) is not None:
            found[file.store][name] = file
    return found


def _is_draft(name: str) -> bool:
    """Whether a file is one that gets its name when it is whole (`CheckpointFileManager`)."""
    file = _last(name)
    return file.startswith(".") and file.endswith(".tmp")


def _of(log: str, name: str) -> int:
    """The batch of a log's file; -1: it is none."""
    folder, _, file = name.rpartition("/")
    found = _BATCH.fullmatch(file)
    return int(found[1]) if folder == log and found is not None else -1
