"""A program with a direct DStream that is killed, again and again."""

import json
import os
import random
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from dagster_sparkscale import LocalCluster
from tests.sources.kinesis.delivered import row
from tests.sources.kinesis.killed import EXECUTOR
from tests.sources.kinesis.processes import running
from tests.sources.kinesis.stream import Stream
from tests.waiting import wait_for

pytestmark = pytest.mark.spark
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

    def wait(self, process: "subprocess.Popen[bytes]", what: str, done: Callable[[], Any]) -> None:
        def look() -> Any:
            assert process.poll() is None, f"the program has ended:\n{self.log()}"
            return done()

        wait_for(what, look, 200, every=0.005)

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

    def executors(self) -> list[psutil.Process]:
        """Those of the last run, on a cluster."""
        app = self._runs[-1].with_suffix(".app").read_text()
        lines = ((each, each.info["cmdline"] or []) for each in psutil.process_iter(["cmdline"]))
        return [each for each, line in lines if app in line and EXECUTOR in line]

    def latest(self) -> int:
        """The number of the latest position in the store."""
        names = os.listdir(self.store) if self.store.exists() else []
        return max((int(name) for name in names if name.isdigit()), default=-1)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("emulator", ["kinesis-mock"], indirect=True)
def test_killed_again_and_again_it_loses_nothing(
    stream: Callable[..., Stream], emulator: Any, tmp_path: Path, local_cluster: LocalCluster
) -> None:
    master = local_cluster._master()
    kinesis = stream(2)
    program = Program(tmp_path, emulator.url, kinesis.name)
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    kinesis.put(500)
    with kinesis.writing(10):
        # In the middle of the first batch; wherever it is; while committing.
        with program.running(hang_after=50) as process:
            program.wait(process, "50 rows", lambda: len(program.lines(-1)) >= 50)
        kinesis.split(kinesis.open_shards()[0].id)
        kinesis.put(500)
        with program.running() as process:
            some = chance.randrange(20, 400)
            program.wait(process, f"{some} rows", lambda: len(program.lines(-1)) >= some)
        # On a cluster an executor is killed as well, whatever it is doing.
        with program.running(master=master) as process:
            begun = program.latest()
            program.wait(process, "a commit", lambda: program.latest() > begun)
            program.executors()[0].kill()
            some = begun + chance.randrange(2, 5)
            program.wait(process, f"commit {some}", lambda: program.latest() >= some)
    with program.running(master=master) as process:

        def all_rows() -> bool:
            return len({line[0] for line in program.lines()}) >= kinesis.total

        program.wait(process, "all rows", all_rows)
        program.stop.touch()
        assert process.wait(60) == 0, program.log()
    rows = [row(line[0]) for line in program.lines()]
    kinesis.assert_at_least_once(rows)
    assert len(rows) >= kinesis.total + 50, "the first batch was not repeated"

    # A graceful stop has committed all that was written.
    position = json.loads((program.store / str(program.latest())).read_text())["shards"]
    for _, shard, sequence in program.lines():
        assert position[shard]["k"] == "END" or int(position[shard]["s"]) >= int(sequence)
