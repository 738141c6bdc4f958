"""Runs programs/structured_queries.py: for what depends on the environment of a whole process."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.sources.kinesis.processes import running
from tests.waiting import HANGS

PROGRAM = Path(__file__).parent / "programs" / "structured_queries.py"


class Queries:
    """A run of the program, in a process whose environment has nothing of AWS."""

    def __init__(self, folder: Path, process: "subprocess.Popen[bytes]") -> None:
        self.folder = folder
        self._process = process

    @classmethod
    @contextmanager
    def running(cls, folder: Path, jobs: Sequence[Mapping[str, Any]]) -> Iterator["Queries"]:
        """Killed in the end, with all it has started, if it has not ended by itself."""
        home = folder / "home"
        home.mkdir(parents=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        environ = {**kept, "HOME": str(home), "AWS_EC2_METADATA_DISABLED": "true"}
        arguments, pipe = [str(folder)], subprocess.PIPE
        with running(PROGRAM, arguments, folder / "log", pipe, environ) as process:
            assert process.stdin is not None
            # What is secret is in no argument, and in no file.
            process.stdin.write(json.dumps(jobs).encode())
            process.stdin.close()
            yield cls(folder, process)

    def end(self) -> None:
        """Wait for the end of the program, which must be a good one."""
        assert self._process.wait(HANGS) == 0, self.log()

    def said(self, name: str) -> dict[str, Any]:
        """What became of a query: its rows, its plan and its error."""
        found: dict[str, Any] = json.loads((self.folder / f"{name}.json").read_text())
        return found

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-6000:]
