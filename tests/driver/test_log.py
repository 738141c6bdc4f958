"""A driver prints on, whoever reads it."""

import io
import subprocess
import sys

import pytest

from dagster_sparkscale.driver.ending.end_report import EndReport
from dagster_sparkscale.driver.ending.reporter import IN_THE_LOG, EndReporter
from dagster_sparkscale.driver.log import say
from dagster_sparkscale.observe.end_report import read_end_report
from tests.waiting import HANGS

PRINTS = """
import sys
from dagster_sparkscale.driver.log import outlive_readers
outlive_readers()
print("before", flush=True)
sys.stdin.read()
for stream in (sys.stdout, sys.stderr):
    print("x" * 100_000, file=stream, flush=True)
    print("after, not flushed", file=stream)
open(sys.argv[1], "w").write("printed")
"""


@pytest.mark.parametrize("options", [[], ["-u"]], ids=["buffered", "unbuffered"])
def test_a_program_prints_on_after_whoever_reads_it_has_gone(tmp_path, options) -> None:
    pipe = subprocess.PIPE
    program = subprocess.Popen(
        [sys.executable, *options, "-c", PRINTS, str(tmp_path / "file")],
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
    )
    assert program.stdin and program.stdout and program.stderr
    assert program.stdout.readline() == b"before\n"
    for each in (program.stdout, program.stderr, program.stdin):
        each.close()
    assert program.wait(HANGS) == 0
    assert (tmp_path / "file").read_text() == "printed"


def test_a_line_is_written_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or those of two threads would run into one."""
    written: list[str] = []

    class Stream(io.StringIO):
        def write(self, text: str) -> int:
            written.append(text)
            return len(text)

    monkeypatch.setattr(sys, "stderr", Stream())
    monkeypatch.setattr(sys, "__stdout__", Stream())
    say("it begins")
    EndReporter(None, IN_THE_LOG).took()
    log, report = written
    assert log == "sparkscale: it begins\n"
    assert (read_end_report(report), report[-1]) == (EndReport(took=True), "\n")


def test_a_driver_without_stderr_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python has none where the descriptor was closed before it began."""
    monkeypatch.setattr(sys, "stderr", None)
    say("it begins")
