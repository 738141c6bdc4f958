"""Reads the logs of a query's checkpoint."""

import json

from . import layout
from .folder import Folder
from .layout import Logs, QuerySettings


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


def read_format(folder: Folder) -> str:
    """The version of the format of state stores, by the last batch that is done: the first version
    of an entry of the commit log has no ids of theirs (`CommitLog`)."""
    batch = read_latest(folder, layout.COMMITS)
    content = None if batch is None else folder.read(f"{layout.COMMITS}/{batch}")
    return "1" if content is None or content.startswith(b"v1\n") else "2"


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
