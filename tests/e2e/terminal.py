"""The command `sparkscale` in a process of its own, about the code location of these tests."""

import subprocess
import sys
from pathlib import Path

import pytest

from dagster_sparkscale import LocalCluster
from tests.waiting import HANGS

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "dagster_sparkscale"]
THERE = ["-m", "tests.e2e.location"]


def declare(
    monkeypatch: pytest.MonkeyPatch, stream: str, folder: Path, cluster: LocalCluster
) -> None:
    """Have the code location declare `stream` on `cluster`, and Dagster at home in `folder`."""
    monkeypatch.setenv("SPARKSCALE_TEST_STREAM", stream)
    monkeypatch.setenv("SPARKSCALE_TEST_FOLDER", str(folder))
    monkeypatch.setenv("SPARKSCALE_TEST_STATE", cluster.state_dir)
    monkeypatch.setenv("DAGSTER_HOME", str(folder / "home"))
    (folder / "home").mkdir()
    (folder / "home" / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")


def typed(command: str, *words: str, code: int = 0) -> str:
    """What it writes, to both."""
    done = subprocess.run(
        [*COMMAND, command, *words, *THERE],
        **{"cwd": ROOT, "capture_output": True, "text": True, "timeout": HANGS},
    )
    assert done.returncode == code, done.stdout + done.stderr
    return str(done.stdout + done.stderr)
