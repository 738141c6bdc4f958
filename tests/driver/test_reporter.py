"""What is left where, of a driver that ends; without one."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from dagster_sparkscale.driver.ending.end_report import MARKER, EndReport, Stopped
from dagster_sparkscale.driver.ending.reporter import IN_THE_LOG, EndReporter
from dagster_sparkscale.observe.end_report import read_end_report
from tests.waiting import HANGS

HOW = Stopped(1.5, True, True)


def said(capfd: pytest.CaptureFixture[str]) -> list[EndReport | None]:
    lines = capfd.readouterr().out.splitlines()
    assert all(line.startswith(MARKER) for line in lines)
    return [read_end_report(line) for line in lines]


def test_each_thing_is_told_as_soon_as_it_is_so(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "last-words"
    reporter = EndReporter(None, file)
    assert not file.exists()
    reporter.took()
    assert read_end_report(file.read_text()) == EndReport(took=True)
    reporter.fenced("another has it")
    assert read_end_report(file.read_text()) == EndReport(True, "another has it")
    reporter.stopped(HOW)
    reporter.raised(ValueError("no such topic"))
    reporter.over()
    last = EndReport(True, "another has it", HOW, "ValueError: no such topic")
    assert read_end_report(file.read_text()) == last
    reports = said(capfd)
    assert (len(reports), reports[-1]) == (4, last)
    assert os.listdir(tmp_path) == ["last-words"]  # nothing could be renamed to one that is mounted


def test_a_driver_with_nothing_to_tell_says_so(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    EndReporter(None, tmp_path / "last-words").over()
    assert read_end_report((tmp_path / "last-words").read_text()) == EndReport()
    assert said(capfd) == [EndReport()]


def test_in_the_log_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    EndReporter(None, IN_THE_LOG).took()
    assert said(capfd) == [EndReport(took=True)]
    assert os.listdir(tmp_path) == []


def test_beside_the_announcement_each_has_a_file_of_its_own(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    reporter = EndReporter(tmp_path / "agent.json")
    reporter.took()
    reporter.fenced("another has it")
    reporter.stopped(HOW)
    reporter.raised("it cannot listen")
    reporter.over()
    found = {path.name: json.loads(path.read_text()) for path in tmp_path.iterdir()}
    assert found == {
        "took.json": {},
        "fenced.json": {"reason": "another has it"},
        "stopped.json": json.loads(json.dumps(asdict(HOW))),
        "raised.json": {"raised": "it cannot listen"},
    }
    assert said(capfd) == []


def test_who_can_not_tell_that_its_mark_may_be_there_does_not_leave_one(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for reporter in (
        EndReporter(tmp_path / "no" / "agent.json"),
        EndReporter(None, tmp_path / "no" / "words"),
    ):
        with pytest.raises(OSError, match="No such file"):
            reporter.took()
        reporter.fenced("another has it")
        reporter.over()
    assert "cannot be written: " in capfd.readouterr().err


def test_the_log_has_what_the_file_has_no_room_for(capfd: pytest.CaptureFixture[str]) -> None:
    reporter = EndReporter(None, Path("/dev/full"))
    reporter.raised(ValueError("no such topic"))
    reporter.stopped(HOW)
    assert said(capfd)[-1] == EndReport(stopped=HOW, raised="ValueError: no such topic")


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[Path]:
    """A file that can't be opened to be written."""
    file = tmp_path / "last-words"
    os.mkfifo(file)  # opening it hangs until somebody reads
    yield file
    reading = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    for thread in threading.enumerate():
        if thread.name == "sparkscale-end-report":
            thread.join(HANGS)
    os.close(reading)


def test_an_end_does_not_wait_for_a_file_that_hangs(
    hanging: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    reporter = EndReporter(None, hanging)

    def end() -> None:
        reporter.raised(ValueError("no such topic"))
        reporter.stopped(HOW)
        reporter.over()

    ending = threading.Thread(target=end, daemon=True)
    ending.start()
    ending.join(HANGS)
    assert not ending.is_alive()
    said = capfd.readouterr()
    reports = [read_end_report(line) for line in said.out.splitlines()]
    raised = EndReport(raised="ValueError: no such topic")
    assert reports == [raised, replace(raised, stopped=HOW)]
    assert "is not written after 2 s" in said.err


def test_an_end_does_not_wait_for_a_mark_that_is_being_told_of(hanging: Path) -> None:
    reporter = EndReporter(None, hanging)
    taking = threading.Thread(target=reporter.took, name="sparkscale-end-report", daemon=True)
    ending = threading.Thread(target=reporter.stopped, args=(HOW,), daemon=True)
    taking.start()
    ending.start()
    ending.join(HANGS)
    assert not ending.is_alive()
    assert taking.is_alive()  # no mark is left that could not be told of


def test_a_driver_ends_though_its_file_hangs(hanging: Path) -> None:
    (hanging.parent / "token").write_text("s3cret" * 4)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "dagster_sparkscale.driver", "--stream", "clicks"),
            *("--epoch", "1", "--interval-ms", "1000", "--initial-executors", "1"),
            *("--token-file", str(hanging.parent / "token"), "--last-words", str(hanging)),
            *("--bind", "203.0.113.1", __file__),  # none of this host's
        ],
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )
    assert done.returncode == 1
    left = read_end_report(done.stdout)
    assert left is not None and str(left.raised).startswith("cannot listen on 203.0.113.1")


def test_who_has_no_threads_left_tells_it_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    EndReporter(None, tmp_path / "last-words").raised("RuntimeError: can't start new thread")
    left = read_end_report((tmp_path / "last-words").read_text())
    assert left == EndReport(raised="RuntimeError: can't start new thread")


def test_what_could_not_be_written_is_tried_once_more_at_the_end(tmp_path: Path) -> None:
    folder = tmp_path / "not-yet"
    reporter = EndReporter(None, folder / "last-words")
    reporter.raised(ValueError("no such topic"))
    folder.mkdir()
    reporter.over()
    left = read_end_report((folder / "last-words").read_text())
    assert left == EndReport(raised="ValueError: no such topic")


def test_a_mark_that_could_not_be_told_of_is_in_no_later_word(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    reporter = EndReporter(None, tmp_path / "no" / "words")
    with pytest.raises(OSError, match="No such file"):
        reporter.took()
    reporter.raised("it could not be told")
    assert said(capfd) == [EndReport(raised="it could not be told")]


def test_the_programs_own_output_is_not_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout", None)
    monkeypatch.setattr("sys.__stdout__", None)
    EndReporter(None, tmp_path / "last-words").took()
    assert read_end_report((tmp_path / "last-words").read_text()) == EndReport(took=True)
