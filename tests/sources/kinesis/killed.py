"""Runs programs/structured_files.py, and kills it, its executors and its Python workers."""

import contextlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import psutil

from tests.clusters.running import EXECUTOR
from tests.sources.kinesis.delivered import Row, row
from tests.sources.kinesis.processes import running
from tests.waiting import HANGS, wait_for

PROGRAM = Path(__file__).parent / "programs" / "structured_files.py"


class Program:
    """Runs of the program on one checkpoint and one sink."""

    def __init__(
        self, folder: Path, url: str, stream: str, start: str = "trim_horizon", master: str = ""
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.checkpoint = folder / "checkpoint"
        self._arguments = [master or "local[2]", url, stream, start, str(folder)]

    @contextmanager
    def running(self, how: str = "on") -> Iterator["subprocess.Popen[bytes]"]:
        """A run; killed at the end of the block, with all it has started here, by kill -9."""
        with running(PROGRAM, [*self._arguments, how], self.folder / "log") as process:
            yield process

    def finish(self) -> None:
        """A run that ends by itself, with all there is."""
        with self.running("end") as process:
            assert process.wait(HANGS) == 0, self.log()

    def wait(self, process: "subprocess.Popen[bytes]", what: str, look: Callable[[], Any]) -> Any:
        """Wait for something while the program runs; looked for often, to be in time for it."""

        def seen() -> Any:
            assert process.poll() is None, f"the program has ended before {what}:\n{self.log()}"
            return look()

        return wait_for(what, seen, 200, every=0.01)

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-6000:]

    # What the checkpoint and the sink have.

    def latest(self, kind: str) -> int:
        """The number of the latest batch in a log: "offsets", "commits", or that of the sink."""
        folder = self.folder / "out" / "_spark_metadata" if kind == "sink" else None
        folder = folder or self.checkpoint / kind
        names = os.listdir(folder) if folder.exists() else []
        numbers = (each.removesuffix(".compact") for each in names)
        return max((int(number) for number in numbers if number.isdigit()), default=-1)

    def begun(self) -> bool:
        """Whether a batch's end has been written down, and the batch is not done."""
        return self.latest("offsets") > self.latest("commits")

    def written(self) -> list[Row]:
        """The rows that the sink has, by its own log: in order of the batches."""
        folder = self.folder / "out" / "_spark_metadata"
        names = [each for each in os.listdir(folder) if each[0] != "."]
        compact = max((int(n.split(".")[0]) for n in names if "." in n), default=-1)
        later = sorted(int(n) for n in names if "." not in n and int(n) > compact)
        files = [f"{compact}.compact"] * (compact >= 0) + [str(number) for number in later]
        rows = []
        for name in files:
            for line in (folder / name).read_text().splitlines()[1:]:
                path = Path(unquote(urlsplit(json.loads(line)["path"]).path))
                rows += [row(json.loads(each)["data"]) for each in path.read_text().splitlines()]
        return rows

    # Where it is held up.

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Tasks that have rows wait until the end of the block."""
        for old in self.folder.glob("held-*"):
            old.unlink()
        hold = self.folder / "hold"
        hold.touch()
        try:
            yield
        finally:
            hold.unlink()

    def held(self) -> set[psutil.Process]:
        """The Python workers that wait, of those that live."""
        found = set()
        for each in self.folder.glob("held-*"):
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(int(each.name.removeprefix("held-")))
                if process.status() != psutil.STATUS_ZOMBIE:
                    found.add(process)
        return found

    def executor_of(self, worker: psutil.Process) -> psutil.Process:
        """The executor of this program that a Python worker is of."""
        app = (self.folder / "app").read_text()
        for parent in worker.parents():
            line = parent.cmdline()
            if EXECUTOR in line and app in line:
                return parent
        raise AssertionError(f"process {worker.pid} is of no executor of {app}")
