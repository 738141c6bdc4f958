"""A run of tests, of benchmarks or of anything else that is marked leaves nothing running."""

import contextlib
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from dev import runs
from tests.waiting import HANGS, wait_for

pytestmark = pytest.mark.clusters

ROOT = Path(__file__).parents[2]
WORK = """
import contextlib, subprocess, sys, time
from pathlib import Path

@contextlib.contextmanager
def working():
    try:
        # Both leave the session of the run, as a driver and its supervisor do.
        subprocess.Popen(["sleep", "600"], start_new_session=True)
        started = "import subprocess; subprocess.Popen(['sleep', '600']); input()"
        command = [sys.executable, "-c", started]
        subprocess.Popen(command, start_new_session=True, stdin=subprocess.PIPE)
        Path("began").touch()
        yield
    finally:
        Path("ended").touch()
"""
CONFTEST = """
from tests import leftovers

leftovers._PATIENCE = 0
"""
TEST = """
import pytest, time
from work import working

@pytest.fixture(scope="session")
def work():
    with working():
        yield

def test_work(work): time.sleep(600)
"""
BENCHMARK = """
import runpy, sys, time, types
from work import working

def measure():
    with working():
        time.sleep(600)

sys.modules["benchmarks.sensor_tick"] = types.SimpleNamespace(measure=measure)
sys.argv = ["benchmarks", "sensor_tick"]
runpy.run_module("benchmarks", run_name="__main__", alter_sys=True)
"""
PYTEST = (sys.executable, "-m", "pytest", "-p", "tests.leftovers", "-p", "no:cacheprovider")
BENCHMARKS = (sys.executable, "benchmark.py")
COMMANDS = {
    "tests": (*PYTEST, "-n0"),
    "tests in two processes": (*PYTEST, "-n2"),
    "benchmarks": BENCHMARKS,
}


class Started:
    """A run that works until it is ended, in a process group of its own, in `folder`."""

    def __init__(self, folder: Path, *command: str) -> None:
        self._folder = folder
        self.name = secrets.token_hex(8)
        files = {"conftest": CONFTEST, "test_work": TEST, "benchmark": BENCHMARK, "work": WORK}
        for file, text in files.items():
            (folder / f"{file}.py").write_text(text)
        with open(folder / "output", "wb") as output:
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                env={
                    **os.environ,
                    runs.MARK: runs.mark(self.name),
                    "PYTHONPATH": os.pathsep.join((str(ROOT), str(folder))),
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        wait_for("it to work", (folder / "began").exists, about=self.output)
        wait_for("what it starts", lambda: len(self.sleeping()) == 2, about=self.output)

    def output(self) -> str:
        return (self._folder / "output").read_text(errors="replace")

    def sleeping(self) -> list[str]:
        """The work that is left."""
        return [line for line in runs.lines(runs.running(self.name)) if "sleep 600" in line]

    def has_ended_what_it_began(self) -> bool:
        return (self._folder / "ended").exists()

    def wait_until_nothing_runs(self) -> None:
        self.process.wait(HANGS)
        wait_for(
            "the end of all that it has started",
            lambda: not runs.running(self.name),
            about=lambda: "\n".join([*runs.lines(runs.running(self.name)), self.output()]),
        )


Start = Callable[..., Started]


@pytest.fixture
def start(tmp_path: Path, hangups_end: None) -> Iterator[Start]:
    with contextlib.ExitStack() as ends:

        def started(*command: str) -> Started:
            run = Started(tmp_path, *command)
            ends.callback(runs.end, run.name)
            return run

        yield started


@pytest.mark.parametrize(
    ("command", "number"),
    [
        ("tests", signal.SIGKILL),
        ("tests in two processes", signal.SIGKILL),
        ("benchmarks", signal.SIGKILL),
    ],
)
def test_nothing_outlives_a_run_that_is_ended_by_a_signal(
    start: Start, command: str, number: int
) -> None:
    run = start(*COMMANDS[command])
    run.process.send_signal(number)
    run.wait_until_nothing_runs()


@pytest.mark.parametrize(
    ("command", "number"),
    [
        ("tests", signal.SIGHUP),
        ("tests in two processes", signal.SIGTERM),
        ("benchmarks", signal.SIGHUP),
    ],
)
def test_a_run_whose_process_group_is_told_to_end_ends_in_good_order(
    start: Start, command: str, number: int
) -> None:
    run = start(*COMMANDS[command])
    os.killpg(run.process.pid, number)
    run.wait_until_nothing_runs()
    assert run.has_ended_what_it_began(), run.output()


def test_a_run_that_is_told_twice_at_once_ends_in_good_order(start: Start) -> None:
    run = start(*BENCHMARKS)
    run.process.send_signal(signal.SIGTERM)
    run.process.send_signal(signal.SIGHUP)
    run.wait_until_nothing_runs()
    assert run.has_ended_what_it_began(), run.output()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_run_ends_with_the_make_that_has_started_it(
    tmp_path: Path, start: Start, number: int
) -> None:
    (tmp_path / "Makefile").write_text(f"bench:\n\t@true && exec {sys.executable} benchmark.py\n")
    run = start("make")
    run.process.send_signal(number)
    run.wait_until_nothing_runs()
    assert run.has_ended_what_it_began(), run.output()


def test_a_run_under_nohup_outlives_its_terminal(start: Start) -> None:
    run = start("nohup", *BENCHMARKS)
    os.killpg(run.process.pid, signal.SIGHUP)
    run.process.send_signal(signal.SIGTERM)
    run.wait_until_nothing_runs()
    # It tells what has ended it, and had the first one been taken, it was that.
    assert "KeyboardInterrupt: SIGTERM" in run.output(), run.output()


def test_a_run_in_the_background_whose_shell_ignores_signals_ends_in_good_order(
    start: Start,
) -> None:
    ignoring = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    ignoring += "signal.signal(signal.SIGTERM, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    run = start(sys.executable, "-c", ignoring, *PYTEST, "-n2")
    os.killpg(run.process.pid, signal.SIGTERM)
    run.wait_until_nothing_runs()
    assert run.has_ended_what_it_began(), run.output()


def test_what_ignores_sigterm_is_killed_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "_TERM_SECONDS", 0.5)
    name = secrets.token_hex(8)
    text = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    text += "print('up', flush=True); time.sleep(600)"
    child = subprocess.Popen(
        [sys.executable, "-c", text],
        env={**os.environ, runs.MARK: runs.mark(name)},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert child.stdout is not None and child.stdout.readline() == b"up\n"
        (told,) = runs.end(name)
        assert told.startswith(f"process {child.pid}: {sys.executable} -c import signal")
        assert child.wait(HANGS) == -signal.SIGKILL
    finally:
        child.kill()
        child.wait()


def test_a_run_within_a_run_is_part_of_both_and_another_run_of_neither() -> None:
    outer, inner, other = (secrets.token_hex(8) for _ in range(3))
    within = {**os.environ, runs.MARK: f"{outer}//{inner}"}
    child = subprocess.Popen(["sleep", "600"], env=within, start_new_session=True)
    try:
        wait_for("its environment to show", lambda: runs.running(outer))
        assert [process.pid for process in runs.running(outer)] == [child.pid]
        assert [process.pid for process in runs.running(inner)] == [child.pid]
        assert runs.running(other) == runs.running(inner[:8]) == runs.end(other) == []
        # Others of this run may run beside it.
        this = runs.running(os.environ[runs.MARK].split("//")[0])
        assert child.pid not in {process.pid for process in this}
    finally:
        child.kill()
        child.wait()


def watchers(started: list["subprocess.Popen[str]"]) -> list[psutil.Process]:
    """The processes that wait for the end of these runs, or end what they have left."""
    pids = {str(run.pid) for run in started}
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            line = process.cmdline()
            if line[1:3] == ["-m", "dev.runs"] and line[4:5] and line[4] in pids:
                found.append(process)
    return found


def test_a_run_that_is_killed_ends_no_other_run_of_its_name() -> None:
    name = secrets.token_hex(8)
    begin = "import subprocess, sys; from dev import runs; runs.begin(sys.argv[1]); "
    begin += "print(subprocess.Popen(['sleep', '600'], start_new_session=True).pid, flush=True); "
    begin += "input()"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", begin, name],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    try:
        first, second = (int(run.stdout.readline()) for run in started if run.stdout is not None)
        started[0].kill()
        wait_for("the end of the first", lambda: not psutil.pid_exists(first))
        # The watcher has gone through all that it ends.
        wait_for("its watcher's end", lambda: len(watchers(started)) == 1)
        assert second in {process.pid for process in runs.running(name)}
    finally:
        runs.end(name)
        for run in started:
            run.kill()
            run.communicate()
