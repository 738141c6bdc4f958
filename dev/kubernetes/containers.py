"""A container: a process of this machine in namespaces of its own."""

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from dev.kubernetes import images
from dev.kubernetes.images import Mount
from dev.kubernetes.network import Network
from dev.kubernetes.plane import TETHERED

_INSIDE = Path(__file__).parent / "inside.py"
_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Specification:
    """What a container is started with."""

    pod: str
    """Its uid."""
    hostname: str
    command: Sequence[str]
    environment: Mapping[str, str]
    folder: str
    mounts: Sequence[Mount]
    user: int = 0
    """Who it runs as; a user other than root has the group of the same number."""


class Container:
    """A container that was started. The thread that makes one has to live as long as it does."""

    def __init__(self, what: Specification, place: Path, network: Network) -> None:
        """
        Args:
            place: a folder of its own for what it needs here.
        """
        root, told = place / "root", place / "container.json"
        root.mkdir(exist_ok=True)
        told.write_text(
            json.dumps(
                {
                    "hostname": what.hostname,
                    "command": what.command,
                    "folder": what.folder,
                    "mounts": [asdict(mount) for mount in what.mounts],
                    "network": network.inside(what.pod),
                    "root": str(root),
                    "user": what.user,
                    "open": images.places(),
                }
            )
        )
        namespaces = ("--mount", "--uts", "--net", "--pid", "--ipc")
        with open(place / "log", "ab") as log:
            self._process = subprocess.Popen(
                [
                    *TETHERED,
                    *("unshare", *namespaces, "--"),
                    *(sys.executable, "-IS", str(_INSIDE), str(told)),
                ],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(what.environment),
                start_new_session=True,
            )
        try:
            self.pid = self._first()
            network.connect(self.pid)
            assert self._process.stdin is not None
            self._process.stdin.write(b"\n")
            self._process.stdin.close()
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise

    def _first(self) -> int:
        """The number here of the process that is the first one in there."""
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children")
        while self._process.poll() is None:
            if found := children.read_text().split():
                return int(found[0])
            time.sleep(0.005)
        raise RuntimeError(f"it ended with {self._process.returncode}; it needs root on Linux")

    def exit_code(self) -> int | None:
        """128 and the number of the signal where it was killed by one; None: it runs."""
        return self._process.poll()

    def send(self, number: int) -> None:
        """Send its first process a signal. One that it does not handle does nothing, as for every
        first process, unless it is SIGKILL."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def run(self, command: Sequence[str], seconds: float) -> int | None:
        """The exit code of a command run in the container; None if it took too long.

        It has the environment of the container's first process.
        """
        inside = ["nsenter", f"--target={self.pid}", "--mount", "--uts", "--net", "--pid", "--root"]
        try:
            environment = Path(f"/proc/{self.pid}/environ").read_bytes().split(b"\0")
            done = subprocess.run(
                [*TETHERED, *inside, "--", *command],
                env=dict(line.split(b"=", 1) for line in environment if b"=" in line),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None
        except OSError:
            return 127
        return done.returncode

    def kill(self) -> None:
        """Kill all that runs in it, and wait until nothing does."""
        self.send(signal.SIGKILL)
        self._process.wait()


def connect_inside(pid: int, port: int, seconds: float) -> socket.socket:
    """A connection to a port of `localhost` as the process sees that, in its network namespace.

    Raises:
        OSError: nobody listens there, or the process is gone.
    """
    made: list[socket.socket | OSError] = []

    def connect() -> None:
        # A thread of its own, as it can't easily come back from there.
        try:
            with open(f"/proc/{pid}/ns/net") as namespace:
                if _libc.setns(namespace.fileno(), _CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), "entering the pod's network")
            made.append(socket.create_connection(("127.0.0.1", port), seconds))
        except OSError as error:
            made.append(error)

    thread = threading.Thread(target=connect)
    thread.start()
    thread.join()
    if isinstance(made[0], OSError):
        raise made[0]
    return made[0]
