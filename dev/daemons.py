"""What runs in the background for tests, benchmarks and the demo, and ends with who wanted it."""

import signal
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections import deque
from pathlib import Path
from types import FrameType
from typing import Self

_ROOT = Path(__file__).resolve().parent.parent
_END_SECONDS = 60.0


class Daemons(ABC):
    """As a context manager they run within, and nothing of them is left behind."""

    def start(self) -> None:
        """Start them. What fails is ended. Nothing to do for those that run already."""
        return

    @abstractmethod
    def end(self) -> None:
        """End them all. Harmless when they have ended already."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class Keeper(Daemons):
    """A process of its own that keeps daemons, and ends them when its standard input ends: with
    this context, or with this process, whatever becomes of it.

    Args:
        module: is run. Prints a line once its daemons are there.
        log: takes what it says besides; appended to.
    """

    def __init__(self, log: Path, module: str, *arguments: str) -> None:
        self.log = log
        log.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
        with open(log, "ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, "--tethered", *arguments],
                cwd=_ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def told(self) -> str | None:
        """The line that it prints; None: it has ended without one."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip() or None

    def tell(self, line: str) -> None:
        """Give it a line, where it takes any."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def ended_by_signals(tethered: bool = False) -> threading.Event:
    """Set by SIGTERM and Ctrl-C, which end nothing by themselves from now on.

    Args:
        tethered: set by the end of the standard input, too.
    """
    ended = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        ended.set()

    def follow() -> None:
        sys.stdin.read()
        ended.set()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    if tethered:
        threading.Thread(target=follow, daemon=True).start()
    return ended


def tail(log: Path, lines: int = 20) -> str:
    """The last lines of a log."""
    with open(log, errors="replace") as file:
        return "".join(deque(file, lines)).rstrip()
