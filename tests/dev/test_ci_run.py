""".ci/run ends what it runs where it is ended, and says how long each step took."""

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.waiting import HANGS, wait_for

RUN = Path(__file__).parents[2] / ".ci" / "run"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / ".ci").mkdir()
    shutil.copy(RUN, tmp_path / ".ci")
    return tmp_path


def begin(folder: Path, makefile: str) -> "subprocess.Popen[str]":
    (folder / "Makefile").write_text(makefile)
    return subprocess.Popen(
        ["bash", ".ci/run"],
        cwd=folder,
        env={key: value for key, value in os.environ.items() if not key.startswith("MAKE")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_a_signal_ends_its_step(folder: Path) -> None:
    makefile = "venv:\n\t@true\nlint types:\n\t@echo $$$$ > pid; exec sleep 600\n"
    run = begin(folder, makefile)
    try:
        wait_for("its second step", lambda: (folder / "pid").exists() and pid(folder))
        run.send_signal(signal.SIGTERM)
        output, _ = run.communicate(timeout=HANGS)
        assert run.returncode == 128 + signal.SIGTERM
        assert "s  make venv" in output and "s  make lint types" in output
        wait_for("the end of the step", lambda: not psutil.pid_exists(pid(folder)))
    finally:
        run.kill()
        with contextlib.suppress(OSError, ValueError, psutil.NoSuchProcess):
            psutil.Process(pid(folder)).kill()


def pid(folder: Path) -> int:
    return int((folder / "pid").read_text() or 0)


def test_a_step_that_fails_fails_it_and_is_the_last(folder: Path) -> None:
    run = begin(folder, "venv:\n\t@echo set up\nlint types:\n\t@false\n")
    output, _ = run.communicate(timeout=HANGS)
    assert run.returncode != 0
    lines = output.splitlines()
    assert lines[0] == "set up" and lines[-1].endswith("s  make lint types")
