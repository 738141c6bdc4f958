"""Processes that the demo and benchmarks start in groups of their own, and how they end them."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

KILL_SECONDS = 120.0
"""How long what was killed may take to be gone: a JVM on a busy machine takes its time."""


class Children:
    """Processes in groups of their own, so that Ctrl-C reaches the demo alone, which then ends
    them in order."""

    def __init__(self, notes: Path, logs: Path) -> None:
        self._notes = notes
        self._logs = logs
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        logs.mkdir(parents=True, exist_ok=True)

    def start(self, name: str, command: Sequence[str], env: Mapping[str, str], cwd: Path) -> int:
        """Start a process; returns its pid, which is its group's too."""
        with open(self._logs / f"{name}.log", "ab") as log:
            process = subprocess.Popen(
                command,
                env=dict(env),
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._started[name] = process
        return process.pid

    def note(self, name: str, pid: int) -> None:
        """Note a process down for the demo after this one."""
        notes = read_notes(self._notes)
        notes[name] = (pid, psutil.Process(pid).create_time())
        self._notes.write_text(json.dumps(notes))

    def ended(self) -> tuple[str, int] | None:
        """Name and exit code of a process that has ended although nobody ended it."""
        for name, process in self._started.items():
            if (code := process.poll()) is not None:
                return name, code
        return None

    def log_tail(self, name: str, lines: int = 20) -> str:
        text = (self._logs / f"{name}.log").read_text(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def end(self, *names: str) -> None:
        """End the named processes, and all they have started, at the same time."""
        processes = [self._started.pop(name) for name in names if name in self._started]
        end_groups([process.pid for process in processes])
        for process in processes:
            process.wait()


def end_groups(groups: Sequence[int], patience: float = 15.0) -> None:
    """End process groups: ask first, then kill what is left after `patience` seconds."""
    for number, deadline in ((signal.SIGTERM, patience), (signal.SIGKILL, 5.0)):
        for group in groups:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, number)
        until = time.monotonic() + deadline
        while any(alive(group) for group in groups):
            if time.monotonic() > until:
                break
            time.sleep(0.1)
        else:
            return


def alive(group: int) -> bool:
    """Whether a process of `group` is left that is more than an entry in the process table."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    for process in psutil.process_iter(["status"]):
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            if os.getpgid(process.pid) == group and process.info["status"] != psutil.STATUS_ZOMBIE:
                return True
    return False


def read_notes(path: Path) -> dict[str, tuple[int, float]]:
    """By name, the pid and birth of what a demo has started; empty if there are no such notes."""
    try:
        data = json.loads(path.read_text())
        return {name: (int(pid), float(born)) for name, (pid, born) in data.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def still_running(pid: int, born: float) -> bool:
    """Whether `pid` is the process that was born then, and not one that has its number now."""
    try:
        return abs(psutil.Process(pid).create_time() - born) < 1.0
    except psutil.Error:
        return False


def port_to_use(preferred: int) -> int:
    """`preferred` if it is free on the loopback interface, any free port if not."""
    for port in (preferred, 0):
        try:
            with socket.create_server(("127.0.0.1", port)) as server:
                number: int = server.getsockname()[1]
                return number
        except OSError:
            continue
    raise OSError("no free port on 127.0.0.1")
