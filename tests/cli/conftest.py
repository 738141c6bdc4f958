import shutil
import sys
from pathlib import Path

import dagster as dg
import pytest

from dagster_sparkscale.autoscale import rescale as rescale_module
from dagster_sparkscale.cli import logs as logs_module
from dagster_sparkscale.lifecycle import reconcile as reconcile_module
from dagster_sparkscale.lifecycle import trial as trial_module
from tests.cli.daemon import beat, tick
from tests.cli.terminal import Terminal
from tests.fakes import scaled

SAMPLE = Path(__file__).parents[2] / "dagster.yaml"


@pytest.fixture(scope="session")
def made_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home of Dagster with its databases, to copy: to make them costs more than most commands."""
    home = tmp_path_factory.mktemp("made") / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAGSTER_HOME", str(home))
        dg.DagsterInstance.get().dispose()
    return home


@pytest.fixture
def terminal(made_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """`clicks` runs on 2 executors, `orders` was never started; Dagster has a home."""
    for module in (rescale_module, reconcile_module, trial_module):
        monkeypatch.setattr(module, "_POLL", 0)
    monkeypatch.setattr(logs_module, "PAUSE", 0)
    home = tmp_path / "home"
    shutil.copytree(made_home, home)
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    terminal = Terminal(tmp_path)
    terminal.declare()
    terminal.world.run(scaled(max_executors=10))
    return terminal


@pytest.fixture
def healthy(terminal: Terminal) -> Terminal:
    """A Dagster with the sample's settings, whose daemon runs and whose sensor ticks."""
    (terminal.folder / "home" / "dagster.yaml").write_text(SAMPLE.read_text())
    beat()
    tick()
    return terminal
