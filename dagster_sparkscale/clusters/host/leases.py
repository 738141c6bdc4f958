"""The lease of a stream: the right to change it, held by one operation at a time.

A file lock of the operating system, because that is what the kernel frees when its holder dies,
however it dies. Beside it lies lease.json, which only says who holds it, for the error message.

What must not change: the lock decides, never lease.json; two leases conflict inside one process as
they do between processes.
"""

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from dagster_sparkscale.clusters.errors import ClusterError, OperationInProgress
from dagster_sparkscale.clusters.host.folders import read_json
from dagster_sparkscale.clusters.host.supervisor import write_json
from dagster_sparkscale.clusters.store import Lease

# Leases held by this process, by the path of their lock: how an operation proves that the lease it
# hands over is one it really holds.
_held: dict[Path, Lease] = {}


@contextmanager
def hold(folder: Path, stream: str, holder: str, wait: float) -> Iterator[Lease]:
    """Hold the lease of the stream whose folder this is.

    Raises:
        OperationInProgress: somebody else still holds it after `wait` seconds.
    """
    path = folder / "lease.lock"
    lock = FileLock(path, mode=0o600, thread_local=False)
    try:
        locked = lock.acquire(timeout=max(0.0, wait), poll_interval=0.05)
    except Timeout:
        raise OperationInProgress(_who(folder, stream)) from None
    except OSError as error:
        raise ClusterError(f"{path}: can't lock it: {error.strerror or error}") from error
    lease = Lease(stream, holder)
    note = folder / "lease.json"
    with locked:
        try:
            # Only the error message of others depends on the note: a full disk must not keep a
            # stop from stopping.
            with contextlib.suppress(OSError):
                write_json(
                    note,
                    {
                        "holder": holder,
                        "since": time.time(),
                        "pid": os.getpid(),
                        "host": socket.gethostname(),
                    },
                )
            _held[path] = lease
            yield lease
        finally:
            _held.pop(path, None)
            with contextlib.suppress(OSError):
                note.unlink(missing_ok=True)


def check(folder: Path, stream: str, lease: Lease) -> None:
    """Make sure that `lease` is the one this process holds on the stream now.

    Raises:
        ClusterError: it belongs to another stream, or is over.
    """
    if lease.stream != stream:
        raise ClusterError(f"the lease given is for {lease.stream!r}, not for {stream!r}")
    if _held.get(folder / "lease.lock") is not lease:
        raise ClusterError(
            f"the lease of {stream!r} given by {lease.holder} is over: take a new one"
        )


def _who(folder: Path, stream: str) -> str:
    try:
        note = read_json(folder / "lease.json") or {}
        holder, since = str(note["holder"]), float(note["since"])
    except (ClusterError, KeyError, TypeError, ValueError):
        # Between taking the lock and writing the note, or after a full disk.
        return f"another operation holds {stream!r}"
    began = datetime.fromtimestamp(since)
    form = "%H:%M:%S" if time.time() - since < 20 * 3600 else "%Y-%m-%d %H:%M:%S"
    place = f" (process {note.get('pid')} on {note.get('host')})"
    return f"{holder} has held {stream!r} since {began.strftime(form)}{place}"
