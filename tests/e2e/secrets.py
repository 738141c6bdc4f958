"""Every secret of a deployment that runs, and every place where one shows."""

import contextlib
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil

_ALONE = ("token", "metrics.token", "agent.key")
"""Files that hold a secret and nothing else."""
_SETTING = re.compile(rb"^\S*(?:secret|password|token)\S*[ =:]+(\S{12,})$", re.I | re.M)
_KEPT = (*_ALONE, "spark.properties", "cluster.json")
"""Files that may hold one: readable by their user alone, and handed on to nobody."""


def secrets_below(folder: Path) -> set[bytes]:
    """Tokens and keys of all drivers with their state below a folder, and that of their cluster."""
    found: set[bytes] = set()
    for path in _files(folder):
        if path.name in _ALONE:
            found.add(path.read_bytes().strip())
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
            content = path.read_bytes()
            if any(each in content for each in secrets) and not _may_hold_one(path):
                places.append(str(path))
    return places


def _may_hold_one(path: Path) -> bool:
    modes = [stat.S_IMODE(each.stat().st_mode) for each in (path, path.parent)]
    return path.name in _KEPT and modes == [0o600, 0o700]


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
