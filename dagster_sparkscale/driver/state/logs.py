"""Reads the logs of a query's checkpoint."""

import json
import re

from . import layout
from .folder import Folder
from .layout import Logs, QuerySettings

_VERSION = re.compile(rb"v(\d+)\n")


def read_latest(folder: Folder, log: str) -> int | None:
    """The highest batch in a log; None: there is none."""
    return layout.latest(folder.names(log))


def read_id(folder: Folder) -> str | None:
    """The id of the query, which it keeps for as long as its checkpoint; None: it has not begun."""
    try:
        told = json.loads(folder.read(layout.METADATA) or b"{}")
        return str(told["id"])
    except (ValueError, KeyError, TypeError):
        return None


def read_bound(folder: Folder, batch: int) -> QuerySettings | None:
    """What a batch is bound to; None where the offset log has no such batch.

    Raises:
        Unreadable: the entry has another form.
    """
    name = f"{layout.OFFSETS}/{batch}"
    content = folder.read(name)
    if content is None:
        return None
    return layout.bound(content.decode("utf-8", "replace"), f"{folder.name}/{name}")


def read_format(folder: Folder) -> str | None:
    """The version of the format of state stores: that of the last entry of the commit log (as
    Spark's `StateRewriter` has it); None: no batch is done yet.

    Raises:
        Unreadable: that entry is none.
    """
    batch = read_latest(folder, layout.COMMITS)
    if batch is None:
        return None
    name = f"{layout.COMMITS}/{batch}"
    version = _VERSION.match(folder.read(name) or b"")
    if version is None:
        raise layout.Unreadable(f"{folder.name}/{name}: is no entry of a commit log")
    return version[1].decode()


def read_logs(folder: Folder) -> Logs | None:
    """How far the query has come; None: it has not begun a batch.

    Raises:
        Unreadable: the last entry of its offset log is none.
    """
    batch = read_latest(folder, layout.OFFSETS)
    bound = None if batch is None else read_bound(folder, batch)
    if batch is None or bound is None:
        return None
    return Logs(batch, bound, read_latest(folder, layout.COMMITS))
