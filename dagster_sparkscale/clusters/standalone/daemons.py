"""The processes of an embedded Standalone cluster: one master and its workers, on the loopback.

    <state_dir>/cluster/cluster.json    ports, pids with birth times, the mark of its processes, and
                                        the secret by which they and the drivers know each other
    <state_dir>/cluster/recovery/       what a restarted master recovers workers and streams from
    <state_dir>/cluster/work/           the executors' folders
    <state_dir>/cluster/logs/           bounded logs

What must not change: while drivers live, the master comes back at the address it had, for they
know no other; nor does it change what it asks of them; no process is signalled by a bare pid.
"""

import contextlib
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from dagster_sparkscale.clusters.errors import ClusterError
from dagster_sparkscale.clusters.host import processes
from dagster_sparkscale.clusters.host.folders import make_private, read_json
from dagster_sparkscale.clusters.host.supervisor import birth, write_json
from dagster_sparkscale.clusters.pauses import wait_until
from dagster_sparkscale.clusters.standalone import masters
from dagster_sparkscale.clusters.standalone.room import Room
from dagster_sparkscale.clusters.standalone.spark_daemons import (
    HOST,
    MARKER,
    Installation,
    log_of,
    tail_of,
)

if TYPE_CHECKING:
    import psutil

START_SECONDS = 90.0
_PORTS_FROM = 12_000
"""Below are those of well-known services."""


class Daemons:
    """The master and the workers that belong to one state folder."""

    def __init__(self, state_dir: Path) -> None:
        self.folder = state_dir / "cluster"
        self._note = self.folder / "cluster.json"

    def addresses(self) -> tuple[str, str] | None:
        """The master's URL and that of its web UI; None if the cluster was never started."""
        note = self._read()
        return None if note is None else _addresses(note)

    def access(self) -> dict[str, str]:
        """The Spark settings that let an application onto the cluster. They hold its secret."""
        secret = (self._read() or {}).get("secret")
        if not secret:
            return {}
        return {"spark.authenticate": "true", "spark.authenticate.secret": secret}

    def healthy(self, room: Room) -> bool:
        """Whether every daemon lives. Looks at processes only, so it costs next to nothing."""
        note = self._read()
        return note is not None and all(_lives(note, name) for name in room.daemons)

    def start(
        self,
        room: Room,
        java: Path,
        spark: Path,
        drivers_alive: bool,
        java_options: Sequence[str] = (),
        pass_environment: Sequence[str] = (),
    ) -> None:
        """Start what is missing. Safe to call at any time, from several processes at once.

        Raises:
            ClusterError: a daemon did not come up; shows the end of its log.
        """
        with self._locked():
            if self.healthy(room):
                return
            note = self._read() or {"id": os.urandom(8).hex(), "daemons": {}}
            unused = not drivers_alive and not any(_lives(note, name) for name in note["daemons"])
            if unused:
                # Nobody is left to recover; a master that found the dead of a restarted machine
                # in its notes would wait for them before it took anything new.
                shutil.rmtree(self.folder / "recovery", ignore_errors=True)
                # Not before: drivers of a cluster that was started without one have none, nor have
                # those of its daemons that live.
                note.setdefault("secret", secrets.token_urlsafe(32))
            installation = Installation(
                self.folder,
                java,
                spark,
                note["id"],
                java_options,
                pass_environment,
                note.get("secret"),
            )
            for _ in range(3):
                try:
                    self._start(note, room, installation)
                    return
                except _PortTaken:
                    # Another program can take a port while the master is down, or between our
                    # choosing and its binding. Only a cluster that no driver knows may move.
                    if not unused:
                        raise
                    note.pop("master_port", None)
            raise ClusterError(f"no port for the master of {self.folder} could be kept; try again")

    def _start(self, note: dict[str, Any], room: Room, installation: Installation) -> None:
        if "master_port" not in note:
            note["master_port"], note["web_port"] = _free_ports(2)
        master, web = _addresses(note)
        try:
            installation.prepare()
            if not _lives(note, "master"):
                ports = note["master_port"], note["web_port"]
                self._enter(note, "master", installation.start_master(*ports))
            self._await(note, ["master"], lambda: masters.overview(web, 5.0) is not None)
            workers = room.daemons[1:]
            for name in workers:
                if not _lives(note, name):
                    process = installation.start_worker(name, master, room.cores, room.memory)
                    self._enter(note, name, process)
        except OSError as error:
            raise ClusterError(
                f"the embedded cluster can't be started in {self.folder}: {error}"
            ) from error
        self._await(note, workers, lambda: _registered(web, room.workers))

    def stop(self) -> None:
        """End all daemons and their executors; returns when nothing of them is left.

        Raises:
            ClusterError: a process can't be killed.
        """
        if self._read() is None:
            return
        with self._locked():
            note = self._read()
            if note is None:
                return
            # Workers first: they take their executors down in good order.
            for name in sorted(note["daemons"], reverse=True):
                if _lives(note, name):
                    with contextlib.suppress(OSError):
                        os.kill(note["daemons"][name]["pid"], signal.SIGTERM)
            mark = note["id"]

            def left() -> "list[psutil.Process]":
                return processes.carrying(MARKER, mark.__eq__)

            wait_until(lambda: not left(), processes.TERM_SECONDS)
            processes.kill_all(left, "they are the embedded cluster's")
            note["daemons"] = {}
            write_json(self._note, note)
            for name in ("recovery", "work"):
                shutil.rmtree(self.folder / name, ignore_errors=True)

    def _read(self) -> dict[str, Any] | None:
        note = read_json(self._note)
        if note is None:
            return None
        ports = note.get("master_port"), note.get("web_port")
        whole = isinstance(note.get("id"), str) and isinstance(note.get("daemons"), dict)
        whole = whole and isinstance(note.get("secret", ""), str)
        if not whole or not all(isinstance(port, int) for port in ports):
            raise ClusterError(
                f"{self._note}: must hold id, daemons, master_port and web_port, and secret as a "
                "text if at all; restore it from a copy, or end the cluster's processes yourself "
                f"and delete {self.folder}"
            )
        return note

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            make_private(self.folder.parent)
            make_private(self.folder)
        except OSError as error:
            raise ClusterError(f"{self.folder}: can't make it: {error.strerror}") from error
        path = self.folder / "start.lock"
        # Never a file in the place of a lock: what froze with it would leave two who have it.
        lock = FileLock(path, mode=0o600, thread_local=False, fallback_to_soft=False)
        try:
            lock.acquire(timeout=2 * START_SECONDS)
        except Timeout:
            raise ClusterError(
                f"{path}: somebody else has been starting or stopping the "
                f"cluster for {2 * START_SECONDS:.0f} s"
            ) from None
        except OSError as error:
            raise ClusterError(
                f"{path}: can't lock it ({error.strerror or error}): put state_dir on a file "
                "system that knows locks, such as a local disk"
            ) from error
        try:
            yield
        finally:
            lock.release()

    def _enter(self, note: dict[str, Any], name: str, process: subprocess.Popen[bytes]) -> None:
        note["daemons"][name] = {"pid": process.pid, "birth": birth(process.pid)}
        write_json(self._note, note)

    def _await(
        self, note: Mapping[str, Any], names: Sequence[str], ready: Callable[[], bool]
    ) -> None:
        def dead() -> str | None:
            return next((name for name in names if not _lives(note, name)), None)

        is_ready = wait_until(lambda: dead() is not None or ready(), START_SECONDS, 0.1)
        failed = dead()
        if is_ready and failed is None:
            return
        tail = tail_of(self.folder, failed or names[-1])
        if failed == "master" and "Address already in use" in tail:
            raise _PortTaken(
                f"another program has taken port {note['master_port']} or {note['web_port']} of "
                "the embedded cluster's master: end that program, or stop all streams and delete "
                f"{self._note}"
            )
        did = "ended at once" if failed else f"was not ready after {START_SECONDS:.0f} s"
        raise ClusterError(
            f"the {failed or names[-1]} of the embedded cluster {did}. The end of its log "
            f"({log_of(self.folder, failed or names[-1])}):\n{tail}"
        )


class _PortTaken(ClusterError):
    pass


def _addresses(note: Mapping[str, Any]) -> tuple[str, str]:
    return f"spark://{HOST}:{note['master_port']}", f"http://{HOST}:{note['web_port']}"


def _lives(note: Mapping[str, Any], name: str) -> bool:
    return processes.lives(note["daemons"].get(name) or {})


def _registered(web: str, workers: int) -> bool:
    content = masters.overview(web, 5.0) or {}
    return content.get("status") == "ALIVE" and int(content.get("aliveworkers", 0)) >= workers


def _free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nobody has.

    A master that comes back needs those that it had, and the kernel may have given them to
    somebody's outgoing connection meanwhile. So they are below those that it gives, where it leaves
    any there.
    """
    below = range(_PORTS_FROM, _lowest_ephemeral())
    # Not by the generator that somebody may have seeded: two clusters would draw the same.
    drawn = random.SystemRandom().sample(below, min(100, len(below)))
    with contextlib.ExitStack() as stack:
        return [_bound(stack, drawn) for _ in range(count)]


def _lowest_ephemeral() -> int:
    """The lowest port that the kernel gives to who asks for none by its number."""
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 32_768  # Linux as it comes; others begin higher


def _bound(stack: contextlib.ExitStack, drawn: list[int]) -> int:
    """One of the ports drawn that can be had, or any; kept until the end of `stack`."""
    kept = stack.enter_context(socket.socket())
    while drawn:
        port = drawn.pop()
        with contextlib.suppress(OSError):
            kept.bind((HOST, port))
            return port
    kept.bind((HOST, 0))
    return int(kept.getsockname()[1])
