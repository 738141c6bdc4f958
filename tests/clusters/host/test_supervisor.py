"""The supervisor: what it writes, what it survives, and that nothing outlives it unseen."""

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from dagster_sparkscale.clusters.host import supervisor
from dagster_sparkscale.clusters.host.folders import is_locked
from dagster_sparkscale.clusters.host.supervisor import RotatingLog, birth
from tests.waiting import HANGS, wait_for


class Supervised:
    def __init__(self, folder: Path, code: str) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "dagster_sparkscale.clusters.host.supervisor"),
                *("--dir", str(folder), "--", sys.executable, "-uc", code),
            ],
            start_new_session=True,
        )

    def note(self, name: str) -> dict[str, Any]:
        path = self.folder / name
        wait_for(f"{name}", path.exists)
        content: dict[str, Any] = json.loads(path.read_text())
        return content

    def log(self) -> str:
        path = self.folder / "driver.log"
        return path.read_text() if path.exists() else ""


@pytest.fixture
def tmp_path(tmp_path: Path) -> Path:
    """The folder of a submission, as it is where the record says that its driver shall run."""
    remembered(tmp_path, epoch=1, desired="running")
    folder = tmp_path / "submissions" / "1"
    folder.mkdir(parents=True)
    return folder


def remembered(stream: Path, **record: Any) -> None:
    records = stream / "record"
    records.mkdir(exist_ok=True)
    (records / str(1 + len(os.listdir(records)))).write_text(json.dumps(record))


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Any]:
    started: list[Supervised] = []

    def start(code: str) -> Supervised:
        started.append(Supervised(tmp_path, code))
        return started[-1]

    yield start
    for each in started:
        with contextlib.suppress(OSError):
            note = json.loads((each.folder / "driver.json").read_text())
            if birth(note["pid"]) == note["birth"]:
                os.killpg(note["pid"], signal.SIGKILL)
        each.process.kill()
        each.process.wait()


def test_it_keeps_the_output_and_the_exit_code(run: Any) -> None:
    it = run("import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)")
    assert it.process.wait(HANGS) == 7
    note = it.note("exit.json")
    assert (note["code"], note["signal"]) == (7, None)
    assert it.log() == "out\nerr\n"
    assert (it.folder / "exit.json").stat().st_mode & 0o777 == 0o600
    assert (it.folder / "driver.log").stat().st_mode & 0o777 == 0o600


def test_it_tells_who_runs(run: Any) -> None:
    it = run("import time; print('up'); time.sleep(600)")
    note = it.note("driver.json")
    assert birth(note["pid"]) == note["birth"]
    assert note["supervisor_pid"] == it.process.pid
    assert birth(it.process.pid) == note["supervisor_birth"]
    assert os.getpgid(note["pid"]) == note["pid"]


def test_a_killed_driver_is_told_by_its_signal(run: Any) -> None:
    it = run("import time; time.sleep(600)")
    os.kill(it.note("driver.json")["pid"], signal.SIGKILL)
    note = it.note("exit.json")
    assert (note["code"], note["signal"]) == (None, 9)


def test_a_termination_is_passed_on_and_an_interrupt_is_not(run: Any) -> None:
    it = run(
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))\n"
        "print('ready')\n"
        "time.sleep(600)"
    )
    wait_for("the driver", lambda: "ready" in it.log())
    it.process.send_signal(signal.SIGINT)
    it.process.send_signal(signal.SIGHUP)
    it.process.send_signal(signal.SIGTERM)
    assert it.note("exit.json")["code"] == 3


def test_the_end_is_told_although_who_started_it_ignored_those_of_children(
    tmp_path: Path,
) -> None:
    """As some container entry points do; what is ignored stays ignored in what they start."""
    program = (
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN);"
        "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    )
    subprocess.run(
        [
            *(sys.executable, "-c", program, "-m", "dagster_sparkscale.clusters.host.supervisor"),
            *("--dir", str(tmp_path), "--", sys.executable, "-c", "raise SystemExit(7)"),
        ],
        timeout=HANGS,
    )
    assert json.loads((tmp_path / "exit.json").read_text())["code"] == 7


def test_what_the_driver_leaves_behind_is_killed_before_the_end_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One child in the driver's group, one that has left it: a JVM and its Python workers.
    code = (
        "import subprocess, sys\n"
        "for own in (False, True):\n"
        "    child = subprocess.Popen(['sleep', '600'], start_new_session=own)\n"
        "    print(child.pid, flush=True)\n"
    )
    program = (
        "from dagster_sparkscale.clusters.host import supervisor; import sys, pathlib;"
        "sys.exit(supervisor.supervise(pathlib.Path(sys.argv[1]), sys.argv[2:], 0.5))"
    )
    subprocess.run(
        [sys.executable, "-c", program, str(tmp_path), sys.executable, "-c", code],
        check=True,
        timeout=HANGS,
    )
    assert json.loads((tmp_path / "exit.json").read_text())["code"] == 0
    children = [int(line) for line in (tmp_path / "driver.log").read_text().split()]
    assert len(children) == 2
    assert not any(psutil.pid_exists(child) for child in children)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is nothing but the group")
def test_a_process_that_only_has_the_number_of_the_drivers_group_is_left_alone(
    tmp_path: Path,
) -> None:
    """Once a group is empty its number is free for another."""
    program = (
        "from dagster_sparkscale.clusters.host import supervisor; import sys, pathlib;"
        "sys.exit(supervisor.supervise(pathlib.Path(sys.argv[1]), sys.argv[2:], 0.5))"
    )
    command = [sys.executable, "-c", program, str(tmp_path), "sleep", "600"]
    with subprocess.Popen(command) as process:
        wait_for("the driver", (tmp_path / "driver.json").exists)
        driver = json.loads((tmp_path / "driver.json").read_text())["pid"]
        # It joins the driver's group, as nobody can wait until a number comes round.
        with subprocess.Popen(["sleep", "600"], process_group=driver) as stranger:
            os.kill(driver, signal.SIGKILL)
            assert process.wait(HANGS) == 128 + signal.SIGKILL
            assert stranger.poll() is None
            stranger.kill()


def test_orphans_of_the_program_are_reaped_while_it_runs(run: Any) -> None:
    it = run(
        "import subprocess, time\n"
        "for _ in range(20):\n"
        "    subprocess.run(['sh', '-c', 'sleep 0.1 &'], stdout=subprocess.DEVNULL)\n"
        "print('left alone')\n"
        "time.sleep(600)"
    )
    wait_for("the orphans", lambda: "left alone" in it.log())
    driver = it.note("driver.json")["pid"]

    def alone() -> bool:  # zombies are children too
        below = [child.pid for child in psutil.Process(it.process.pid).children()]
        return below == [driver]

    wait_for("none but the driver below its supervisor", alone, 30)


def test_the_driver_has_the_umask_of_who_submitted_it(run: Any) -> None:
    before = os.umask(0o027)
    try:
        it = run("import os; print(oct(os.umask(0)))")
    finally:
        os.umask(before)
    assert it.note("exit.json")["code"] == 0
    assert it.log() == "0o27\n"
    for name in ("driver.json", "driver.log", "exit.json"):
        assert (it.folder / name).stat().st_mode & 0o777 == 0o600, name


def test_a_command_that_does_not_exist_is_told_in_the_log(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dagster_sparkscale.clusters.host.supervisor", "--dir"]
    done = subprocess.run([*command, str(tmp_path), "--", "/nowhere/python"], timeout=HANGS)
    assert done.returncode == 127
    assert "could not be started" in (tmp_path / "driver.log").read_text()
    assert json.loads((tmp_path / "exit.json").read_text())["code"] == 127


def test_without_a_command_it_says_what_is_missing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dagster_sparkscale.clusters.host.supervisor", "--dir"]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 2
    assert "the driver's command is missing" in done.stderr


def test_a_driver_whose_log_cannot_be_written_is_not_held_up(tmp_path: Path, run: Any) -> None:
    (tmp_path / "driver.log").mkdir()
    it = run("print('x' * 1_000_000)")
    assert it.process.wait(HANGS) == 0
    assert it.note("exit.json")["code"] == 0


def test_a_driver_whose_log_hangs_is_not_held_up(tmp_path: Path, run: Any) -> None:
    os.mkfifo(tmp_path / "driver.log")  # to open it waits for a reader, who never comes
    it = run(f"print('x' * {2 * supervisor.BACKLOG * 65536})")
    assert it.process.wait(HANGS) == 0
    assert it.note("exit.json")["code"] == 0


def test_what_was_lost_while_the_log_hung_is_told_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "BACKLOG", 2)
    monkeypatch.setattr(supervisor, "BACKLOG_SECONDS", 0.01)
    os.mkfifo(tmp_path / "driver.log")
    source, driver = os.pipe()
    drain = threading.Thread(
        target=supervisor._drain, args=(source, RotatingLog(tmp_path / "driver.log")), daemon=True
    )
    drain.start()
    for _ in range(20):
        os.write(driver, b"x" * 65536)
    log, told = os.open(tmp_path / "driver.log", os.O_RDONLY), b""
    os.set_blocking(log, False)

    def is_told() -> bool:
        nonlocal told
        os.write(driver, b"and on\n")
        with contextlib.suppress(BlockingIOError):
            told += os.read(log, 1 << 20)
        return b"and on" in told

    wait_for("the log to go on", is_told)
    os.close(driver)
    assert re.search(rb"x\n\[\d+ bytes lost here: the disk hung\]\n", told)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"epoch": 2, "desired": "running"}, "driver 2 of the stream was started meanwhile"),
        ({"epoch": 1, "desired": "stopped"}, "the stream was asked to stop meanwhile"),
        ({"epoch": 1, "desired": "restarting"}, "the stream was asked to stop meanwhile"),
        ({"epoch": 1, "desired": "running", "gone": 1}, "it was declared gone meanwhile"),
        ({"desired": "running"}, "can't be read: KeyError: 'epoch'"),
    ],
)
def test_a_driver_that_was_overtaken_before_it_began_is_not_started(
    tmp_path: Path, run: Any, record: dict[str, Any], reason: str
) -> None:
    """Its launcher may have been frozen for as long as one likes."""
    remembered(tmp_path.parent.parent, **record)
    it = run("print('started')")
    assert it.process.wait(HANGS) == 1
    assert it.note("exit.json")["reason"].endswith(reason)
    assert it.log() == f"The driver {it.note('exit.json')['reason']}\n"


def test_a_file_beside_the_records_that_is_none_keeps_no_driver_from_its_start(
    tmp_path: Path, run: Any
) -> None:
    (tmp_path.parent.parent / "record" / "0002").write_text("put here by hand")
    it = run("print('started')")
    assert it.process.wait(HANGS) == 0
    assert it.log() == "started\n"


def test_a_record_that_is_gone_starts_nothing(tmp_path: Path, run: Any) -> None:
    shutil.rmtree(tmp_path.parent.parent / "record")
    it = run("print('started')")
    assert it.process.wait(HANGS) == 1
    assert "record can't be read: FileNotFoundError" in it.note("exit.json")["reason"]


def test_while_either_lives_a_lock_shows_it(tmp_path: Path, run: Any) -> None:
    it = run("import os, sys, time; print('up', flush=True); time.sleep(600)")
    note = it.note("driver.json")
    assert is_locked(tmp_path / "alive") is True
    it.process.kill()
    it.process.wait()
    assert is_locked(tmp_path / "alive") is True
    os.kill(note["pid"], signal.SIGKILL)
    wait_for("the lock to be free", lambda: is_locked(tmp_path / "alive") is False)


def test_a_look_at_the_lock_keeps_nobody_from_taking_it(tmp_path: Path, run: Any) -> None:
    handle = os.open(tmp_path / "alive", os.O_RDONLY | os.O_CREAT, 0o600)
    fcntl.flock(handle, fcntl.LOCK_SH)
    it = run("print('ran')")
    wait_for("it to try", lambda: it.process.poll() is not None or len(tasks(it.process.pid)))
    os.close(handle)
    assert it.process.wait(HANGS) == 0


def tasks(pid: int) -> list[str]:
    with contextlib.suppress(OSError):
        return os.listdir(f"/proc/{pid}/task")
    return []


def test_a_folder_has_one_supervisor_at_a_time(tmp_path: Path, run: Any) -> None:
    handle = os.open(tmp_path / "alive", os.O_RDONLY | os.O_CREAT, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX)
    it = run("print('started')")
    assert it.process.wait(HANGS) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alive"]
    os.close(handle)
