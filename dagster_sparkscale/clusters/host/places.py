"""The machine, kernel and process namespace of a process, and the proof that it has ended.

What must not change: "has ended" is said on proof only: the same kernel, the same namespace of
process ids, and no such process; whatever can't be read proves nothing.
"""

import functools
import os
import socket
import time
from pathlib import Path

from dagster_sparkscale.clusters.host.supervisor import birth, boot
from dagster_sparkscale.clusters.records.store import Process


def this_process() -> Process:
    """This process, as records remember it."""
    pid = os.getpid()
    return Process(socket.gethostname(), pid, birth(pid), _machine(), boot(), _namespace())


def same_kernel(process: Process) -> bool:
    """Whether `process` was started under the kernel that runs here, in whatever container."""
    if boot():
        return (process.boot, process.machine) == (boot(), _machine())
    return process.host == socket.gethostname()  # what else can be told, such as on macOS


def same_namespace(process: Process) -> bool:
    """Whether the process id of `process` means here what it meant where it was started."""
    if boot() and not process.namespace:
        return False  # it could not be read there
    return same_kernel(process) and process.namespace == _namespace()


def was_before_this_boot(process: Process) -> bool:
    """Whether `process` was started on this machine, or on a clone of it, before a restart."""
    known = bool(process.machine and process.boot)
    return known and process.machine == _machine() and process.boot != boot()


def has_ended(process: Process) -> bool:
    """Whether `process` is proved to have ended."""
    if not process.pid or process.birth is None or not same_namespace(process):
        return False
    try:
        return birth(process.pid) != process.birth
    except OSError:
        return False


def up_since() -> float | None:
    """When this kernel was started, seconds since the epoch by the clock now; None: not known."""
    try:
        uptime = float(Path("/proc/uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return time.time() - uptime


@functools.cache
def _machine() -> str:
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            return Path(path).read_text().strip()
        except OSError:
            continue
    return ""


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
