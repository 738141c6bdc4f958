"""What the supervisor is made of: its log, its notes, and how it knows a process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dagster_sparkscale.clusters.host import supervisor
from dagster_sparkscale.clusters.host.supervisor import RotatingLog, birth, write_json
from tests.waiting import HANGS, wait_for


def test_the_log_is_bounded_and_its_newest_lines_are_there(tmp_path: Path) -> None:
    path = tmp_path / "driver.log"
    log = RotatingLog(path, max_bytes=100, files=3)
    for number in range(100):
        log.write(f"line {number:04}\n".encode())
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "driver.log",
        "driver.log.1",
        "driver.log.2",
    ]
    assert all(each.stat().st_size <= 100 for each in tmp_path.iterdir())
    assert path.read_text().endswith("line 0099\n")
    text = "".join((tmp_path / f"driver.log{end}").read_text() for end in (".2", ".1", ""))
    assert (
        text.split("\n")[:-1] == [f"line {number:04}" for number in range(100)][-len(text) // 10 :]
    )


def test_a_broken_disk_loses_lines_but_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    log = RotatingLog(folder / "driver.log")
    log.write(b"lost\n")
    folder.mkdir()
    log.write(b"kept\n")
    assert (folder / "driver.log").read_text() == "kept\n"


def test_a_note_is_replaced_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "note.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert json.loads(path.read_text()) == {"a": 1}
    assert [each.name for each in tmp_path.iterdir()] == ["note.json"]


@pytest.mark.skipif(sys.platform != "linux", reason="what a descriptor is of is read from /proc")
def test_what_is_written_outlasts_the_power(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Power can't be cut here, so it is what the kernel is asked for that is looked at.
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace

    def synced(handle: int) -> None:
        kept = Path(os.readlink(f"/proc/self/fd/{handle}"))
        steps.append("sync the folder" if kept.is_dir() else "sync the content")
        fsync(handle)

    def replaced(*paths: Path) -> None:
        steps.append("replace")
        replace(*paths)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    write_json(tmp_path / "note.json", {"a": 1})
    assert steps == ["sync the content", "replace", "sync the folder"]


def test_a_dead_process_and_a_zombie_have_no_birth() -> None:
    process = subprocess.Popen(["true"])
    wait_for("the process to end", lambda: birth(process.pid) is None)
    process.wait()
    assert birth(process.pid) is None
    assert birth(os.getpid()) == birth(os.getpid()) is not None


def test_only_the_standard_library_is_imported() -> None:
    program = (
        "import sys; sys.modules['dagster'] = sys.modules['psutil'] = None;"
        "import dagster_sparkscale.clusters.host.supervisor"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=HANGS)
    assert supervisor.LOG_FILES * supervisor.LOG_BYTES < 100_000_000
