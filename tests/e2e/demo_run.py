"""Runs the demo as a user does."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from dev import runs
from tests.waiting import HANGS, patience, wait_for

ROOT = Path(__file__).parents[2]


class DemoRun:
    """`python -m demo.run`, with its state in a folder of the test."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._folder = folder
        self._log = folder / "output"
        places = ["--state", str(folder / "state"), "--report", str(folder / "report.json")]
        given = [*places, "--patience", f"{patience(1):.1f}", *arguments]
        with open(self._log, "wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "demo.run", *given],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def output(self) -> str:
        return self._log.read_text(errors="replace")

    def report(self) -> dict[str, Any]:
        report: dict[str, Any] = json.loads((self._folder / "report.json").read_text())
        return report

    def running(self) -> int:
        """How many processes there are of all that it has started."""
        return len(runs.running(str(self._folder / "state")))

    def wait_until_said(self, what: str, *texts: str) -> None:
        def said() -> bool:
            output = self.output()
            assert self.process.poll() is None, output
            return all(text in output for text in texts)

        wait_for(what, said, 600, about=self.output)

    def interrupt(self) -> None:
        """Ctrl-C."""
        os.kill(self.process.pid, signal.SIGINT)

    def end(self) -> None:
        """Wait for its end, which must be a good one that leaves no process."""
        assert self.process.wait(HANGS) == 0, self.output()
        assert self.running() == 0
        assert "All processes have ended." in self.output()
