"""What a run of tests leaves running is ended when the run is over, and no sooner."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.waiting import HANGS

pytestmark = pytest.mark.clusters

ROOT = Path(__file__).parents[1]
CONFTEST = """
import os
from tests import leftovers

leftovers._PATIENCE = 1

def pytest_unconfigure(): open(f"done-{os.getpid()}", "w").close()
"""
QUICK = """
import os

def test_quick(): open("quick", "w").write(f"done-{os.getpid()}")
"""
SLOW = """
import os, subprocess
from tests.waiting import wait_for

def test_slow():
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    open("child", "w").write(str(child.pid))
    other = wait_for("the other test", lambda: os.path.exists("quick") and open("quick").read())
    wait_for("the other process's end of tests", lambda: os.path.exists(other))
    assert child.poll() is None, "the first process that is done has ended it"
"""


ALONE = """
import subprocess, sys

def test_alone():
    # It ends with this process, and by itself: it is no leftover.
    subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    open("child", "w").write(str(child.pid))
"""


def run(folder: Path, processes: int, **files: str) -> "subprocess.CompletedProcess[str]":
    (folder / "conftest.py").write_text(CONFTEST)
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", f"-n{processes}", "--dist=loadfile"]
    plugins = ["-p", "tests.leftovers", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, *plugins, "."],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )


def check(folder: Path, done: "subprocess.CompletedProcess[str]", passed: int) -> None:
    child = int((folder / "child").read_text())
    assert f"{passed} passed" in done.stdout, done.stdout
    told = f"left running by the tests, and ended now:\nprocess {child}: sleep 600\n"
    assert done.stdout.endswith(told)
    assert done.returncode == 1
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE


def test_it_outlives_the_first_process_of_tests_and_fails_the_run(tmp_path: Path) -> None:
    check(tmp_path, run(tmp_path, 2, quick=QUICK, slow=SLOW), passed=2)


def test_so_it_is_where_one_process_runs_all_tests(tmp_path: Path) -> None:
    check(tmp_path, run(tmp_path, 0, alone=ALONE), passed=1)
