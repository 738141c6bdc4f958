"""Runs programs/dstream_rows.py, and kills it and its executors."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.sources.kinesis.processes import running
from tests.waiting import HANGS, wait_for

PROGRAM = Path(__file__).parent / "programs" / "dstream_rows.py"


class Program:
    """Runs of the program, each with a file of its own for its rows."""

    def __init__(self, folder: Path, url: str, name: str) -> None:
        self.store = folder / "positions"
        self.stop = folder / "stop"
        self._folder, self._url, self._name = folder, url, name
        self._runs: list[Path] = []

    @contextmanager
    def running(
        self, hang_after: int = 0, master: str = "local[2]"
    ) -> Iterator["subprocess.Popen[bytes]"]:
        """A run; killed in the end, with all it has started, if it has not ended by itself."""
        self._runs.append(self._folder / f"rows-{len(self._runs)}")
        arguments = [self._url, self._name, str(self.store), str(self._runs[-1])]
        arguments += [str(self.stop), str(hang_after), master]
        with running(PROGRAM, arguments, self._folder / "log") as process:
            yield process

    def wait(
        self,
        process: "subprocess.Popen[bytes]",
        what: str,
        done: Callable[[], Any],
        every: float = 0.005,
    ) -> None:
        """Wait for something while the program runs; looked for often, to be in time for it."""

        def look() -> Any:
            assert process.poll() is None, f"the program has ended:\n{self.log()}"
            return done()

        wait_for(what, look, 200, every)

    def log(self) -> str:
        return (self._folder / "log").read_text(errors="replace")[-5000:]

    def lines(self, run: int | None = None) -> list[list[str]]:
        """What was written whole, in order; by one run, or by all."""
        found = []
        for path in self._runs if run is None else [self._runs[run]]:
            if path.exists():
                # A killed one may have left half a line.
                found += [json.loads(line) for line in path.read_text().split("\n")[:-1]]
        return found

    def app(self) -> str:
        """The application's id of the last run."""
        return self._runs[-1].with_suffix(".app").read_text()

    def latest(self) -> int:
        """The number of the latest position in the store."""
        names = os.listdir(self.store) if self.store.exists() else []
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def finish(self, process: "subprocess.Popen[bytes]", total: int) -> None:
        """Wait until a run has delivered the rest of so many records, and stop it gracefully."""

        def all_rows() -> bool:
            return len({line[0] for line in self.lines()}) >= total

        self.wait(process, "all rows", all_rows, every=0.2)
        self.stop.touch()
        assert process.wait(HANGS) == 0, self.log()
