"""Every secret of a deployment that runs, and every place where one shows."""

import contextlib
import re
import sqlite3
import stat
import zlib
from base64 import b64decode, b85decode
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil

_ALONE = ("token", "metrics.token", "agent.key")
"""Files that hold a secret and nothing else."""
_SETTING = re.compile(rb"^\S*(?:secret|password|token)\S*[ =:]+(\S{12,})$", re.I | re.M)
_SQLITE = b"SQLite format 3"
_PACKED = re.compile(rb"[0-9A-Za-z!#$%&()*+;<=>?@^_`{|}~/-]{40,}")
"""Of base 64 or 85."""
_KEPT = (*_ALONE, "spark.properties", "cluster.json")
"""Files that may hold one: readable by their user alone, and handed on to nobody."""


def secrets_below(folder: Path) -> set[bytes]:
    """Tokens and keys of all drivers with their state below a folder, and that of their cluster."""
    found: set[bytes] = set()
    for path in _files(folder):
        if path.name in _ALONE:
            # By lines, whose ends JSON escapes; but for those that all keys have.
            lines = path.read_bytes().split()
            found.update(line for line in lines if len(line) > 20 and not line.startswith(b"-"))
        elif path.name == "spark.properties":
            found.update(_SETTING.findall(path.read_bytes()))
    return found


def shown(secrets: Iterable[bytes], folder: Path) -> list[str]:
    """Where one shows: in the arguments of a process, or below a folder in a file (a log, an event,
    a database, an answer) that is not made to keep it, or that others may read."""
    places = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            line = " ".join(process.cmdline()).encode(errors="replace")
            places += [f"process {process.pid}" for each in secrets if each in line]
    for path in _files(folder):
        with contextlib.suppress(OSError):  # gone meanwhile
            if _may_hold_one(path):
                continue
            content = path.read_bytes()
            values = _values(path) if content.startswith(_SQLITE) else [content]
            if any(
                each in value
                for value in (content, *values, *_unpacked(values))
                for each in secrets
            ):
                places.append(str(path))
    return places


def _values(database: Path) -> list[bytes]:
    """All texts in a database: its file has long ones in pieces."""
    found = []
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
            for row in connection.execute(f'SELECT * FROM "{name}"'):
                found += [str(value).encode(errors="replace") for value in row if value is not None]
    return found


def _unpacked(values: Iterable[bytes]) -> Iterator[bytes]:
    """What cursors and events carry compressed."""
    for packed in (each for value in values for each in _PACKED.findall(value)):
        for decoded in (b85decode, b64decode):
            with contextlib.suppress(ValueError, zlib.error):
                yield zlib.decompress(decoded(packed))


def _may_hold_one(path: Path) -> bool:
    modes = [stat.S_IMODE(each.stat().st_mode) for each in (path, path.parent)]
    return path.name in _KEPT and modes == [0o600, 0o700]


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
