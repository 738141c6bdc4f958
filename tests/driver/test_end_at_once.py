"""A driver whose checkpoint is another's does not go on, whatever hangs or fails."""

import subprocess
import sys
from pathlib import Path

import pytest

from dagster_sparkscale.driver.begin.fence import FENCED

DRIVER = """
import os, sys, threading
from pathlib import Path
from dagster_sparkscale.driver import main
from dagster_sparkscale.driver.ending.reporter import EndReporter

def no_more(_):
    raise RuntimeError("can't start new thread")

def nobody_reads():
    read, write = os.pipe()
    os.set_blocking(write, False)
    for size in (4096, 1):
        try:
            while True:
                os.write(write, b"x" * size)
        except BlockingIOError:
            pass
    os.set_blocking(write, True)
    os.dup2(write, 1)
    os.dup2(write, 2)
    return read, write

class Context:
    def stop(self):
        threading.Event().wait()

main.STOP_WITHIN = 0.1
how, file = sys.argv[1:]
if how == "a log that hangs":
    kept = nobody_reads()
if how == "no threads":
    threading.Thread.start = no_more
if how == "no room":
    file = "/dev/full"
main._end_at_once(EndReporter(None, Path(file)), Context(), "another has it")
"""


@pytest.mark.parametrize("how", ["a log that hangs", "no threads", "no room"])
def test_it_ends_at_once(how: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", DRIVER, how, str(tmp_path / "last-words")]
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        driver.communicate(timeout=120)
        assert driver.returncode == FENCED
    finally:
        driver.kill()
        driver.wait()
