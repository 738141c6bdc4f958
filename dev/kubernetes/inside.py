"""Runs in a container's namespaces, and becomes the container's command.

It is started by path with a bare Python, before the container's own view of files exists: standard
library only. A container sees the folders of this machine, as if all of them came with its image,
and on top of them what its pod mounts. A mount whose place does not exist here is made one without
touching this machine's files: the folder it would be in is shown anew, entry by entry.

    python inside.py SPECIFICATION    (goes on when a line comes on stdin)
"""

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
from typing import Any, NoReturn

_BIND, _RECURSIVE, _REMOUNT, _READ_ONLY = 4096, 16384, 32, 1
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
_libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: str, kind: str | None, flags: int = 0) -> None:
    """
    Raises:
        OSError: the system would not.
    """
    kinds = None if kind is None else kind.encode()
    if _libc.mount(source.encode(), target.encode(), kinds, flags, None):
        number = ctypes.get_errno()
        raise OSError(number, f"mounting {source}: {os.strerror(number)}", target)


def bind(source: str, target: str, read_only: bool = False) -> None:
    """Show a file or folder at another place that exists."""
    mount(source, target, None, _BIND | _RECURSIVE)
    if read_only:
        mount(source, target, None, _BIND | _REMOUNT | _READ_ONLY)


class Root:
    """A root folder of its own in which all of this machine's is seen."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._ours: set[int] = set()
        self._show_anew("/", place)

    def mount(self, source: str, target: str, read_only: bool) -> None:
        place = self._see_to(os.path.normpath(target), os.path.isdir(source))
        bind(source, place, read_only)

    def open(self, target: str) -> None:
        """Let everybody go through the folders that lead there."""
        at = self._place
        for part in target.strip("/").split("/"):
            at = f"{at}/{part}"
            if os.path.isdir(at) and not os.stat(at).st_mode & 0o001:
                self._show_anew(at, at)

    def enter(self) -> None:
        os.chroot(self._place)

    def _show_anew(self, folder: str, place: str) -> None:
        """An empty file system at `place`, with each entry of `folder` in it."""
        opened = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        try:
            seen = f"/proc/self/fd/{opened}"
            entries = list(os.scandir(seen))
            mount("tmpfs", place, "tmpfs")
            self._ours.add(os.stat(place).st_dev)
            for entry in entries:
                at = f"{place}/{entry.name}"
                if entry.is_symlink():
                    os.symlink(os.readlink(f"{seen}/{entry.name}"), at)
                    continue
                _make(at, entry.is_dir())
                bind(f"{seen}/{entry.name}", at)
        finally:
            os.close(opened)

    def _see_to(self, target: str, folder: bool) -> str:
        """Where to mount: something is there, or is made where there is nothing yet."""
        place = self._followed(target)
        if os.path.exists(place):
            return place
        parent = os.path.dirname(place)
        while not os.path.exists(parent):
            parent = os.path.dirname(parent)
        if os.stat(parent).st_dev not in self._ours:
            self._show_anew(parent, parent)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        _make(place, folder)
        return place

    def _followed(self, target: str) -> str:
        """Where that is below our root, from which symbolic links lead there."""
        done = ""
        for part in target.strip("/").split("/"):
            at = f"{self._place}{done}/{part}"
            if os.path.islink(at):
                done = os.path.normpath(os.path.join(done or "/", os.readlink(at)))
            else:
                done = f"{done}/{part}"
        return self._place + done


def _make(at: str, folder: bool) -> None:
    if folder:
        os.mkdir(at)
    else:
        open(at, "x").close()


def main(specification: str) -> int:
    """Start the container's first process and wait for it; its exit code, 128 and the number of
    the signal where it was killed by one."""
    with open(specification) as file:
        told = json.load(file)
    if (child := os.fork()) == 0:
        _libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        become(told)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def become(told: dict[str, Any]) -> NoReturn:
    """Become the container's command, the first process in its namespaces."""
    sys.stdin.readline()  # the network is there
    mount("proc", "/proc", "proc")
    subprocess.run(["ip", "-batch", "-"], input="\n".join(told["network"]), text=True, check=True)
    socket.sethostname(told["hostname"])
    root = Root(told["root"])
    for each in told["mounts"]:
        root.mount(each["source"], each["target"], each["read_only"])
    if told["user"]:
        for each in told["open"]:
            root.open(each)
    root.enter()
    os.chdir(told["folder"])
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.dup2(nothing, 0)
    if user := told["user"]:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
        # It is forgotten of a process that becomes another user's.
        _libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    command = told["command"]
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(127)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
