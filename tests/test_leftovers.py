"""What a run of tests leaves running is ended when the run is over, and no sooner."""

import os
import subprocess
import sys
from pathlib import Path

import psutil

from tests.waiting import HANGS

ROOT = Path(__file__).parents[1]
CONFTEST = """
import os
from tests.conftest import pytest_addoption, pytest_configure, pytest_sessionfinish

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


def test_it_outlives_the_first_process_of_tests_and_fails_the_run(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_quick.py").write_text(QUICK)
    (tmp_path / "test_slow.py").write_text(SLOW)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n2", "--dist=loadfile", "-p", "no:cacheprovider", "."],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )
    child = int((tmp_path / "child").read_text())
    assert "2 passed" in done.stdout, done.stdout
    assert f"left running by the tests, and ended now:\nprocess {child}: sleep 600" in done.stdout
    assert done.returncode == 1
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE
