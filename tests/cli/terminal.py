"""A code location in a file, its streams on a cluster in memory, and a terminal to type at."""

import sys
from dataclasses import dataclass, field
from pathlib import Path

import dagster as dg
from click.testing import CliRunner, Result

from dagster_sparkscale.cli.main import main
from dagster_sparkscale.names import OPERATION_TAG, STREAM_TAG
from tests.in_memory.cluster import World
from tests.in_memory.driver import Kept

DEFINITIONS = """
import dagster as dg
from dagster_sparkscale import CapacityPolicy, Webhook, alert_sensor, build_defs
from tests.fakes import scaled, structured
from tests.in_memory.cluster import MemoryCluster
from tests.backpressure.retuning import read_once
from tests.receivers.streams import counting
from tests.state.saying import stateful

defs = dg.Definitions.merge(
    build_defs([{streams}], MemoryCluster(world="{world}"){more}),
    dg.Definitions(sensors=[{alerts}]),
)
"""


@dataclass
class Terminal:
    folder: Path
    world: World = field(default_factory=World)

    def declare(
        self,
        streams: str = 'scaled(max_executors=10), structured("orders")',
        file: str = "definitions.py",
        more: str = "",
        alerts: str = 'alert_sensor(Webhook("https://example.com"))',
    ) -> None:
        """Write the code location; `streams` and `alerts` as they stand in its code."""
        text = DEFINITIONS.format(streams=streams, world=self.world.key, more=more, alerts=alerts)
        (self.folder / file).write_text(text)

    def type(self, *words: str) -> Result:
        """What the command comes to in `folder`."""
        try:
            return CliRunner().invoke(main, list(words), catch_exceptions=False)
        finally:
            # A command is a process of its own, which imports what the files say by then.
            for name, module in list(sys.modules.items()):
                if str(getattr(module, "__file__", "")).startswith(f"{self.folder}/"):
                    del sys.modules[name]

    def ask(self, command: str, *words: str) -> Result:
        """The same, about `definitions.py`."""
        return self.type(command, *words, "-f", "definitions.py")

    def runs(self) -> list[dg.DagsterRun]:
        with dg.DagsterInstance.get() as instance:
            return list(instance.get_runs())

    def run(self) -> dg.DagsterRun:
        (run,) = self.runs()
        return run

    def kept(self, stream: str = "clicks") -> Kept:
        return self.world.streams[stream]


def tagged(run: dg.DagsterRun) -> tuple[str | None, str | None]:
    return run.tags.get(OPERATION_TAG), run.tags.get(STREAM_TAG)


def lines(done: Result, mark: str) -> list[str]:
    """The lines of that mark, without it."""
    return [
        line.removeprefix(mark).strip()
        for line in done.stdout.splitlines()
        if line.startswith(mark)
    ]
