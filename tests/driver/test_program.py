"""Programs run as they would by `python program.py`."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import HANGS

RUN = (
    "import sys; from pathlib import Path; from dagster_sparkscale.driver.program import run; "
    "sys.exit(run(Path(sys.argv[1]), sys.argv[2:]))"
)


def run(folder: Path, text: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    program = folder / "app.py"
    program.write_text(text)
    command = [sys.executable, "-c", RUN, str(program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANGS, check=False)


def test_it_is_main_and_has_its_arguments_and_its_folder(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("VALUE = 'found beside it'\n")
    text = "import sys, beside\nprint(__name__, sys.argv[1:], __file__ == sys.argv[0])\n"
    done = run(tmp_path, text + "print(beside.VALUE)\n", "a", "--b")
    assert done.stdout.splitlines() == ["__main__ ['a', '--b'] True", "found beside it"]
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("pass", 0),
        ("import sys; sys.exit()", 0),
        ("import sys; sys.exit(3)", 3),
        ("import sys; sys.exit('why')", 1),
        ("raise ValueError('broken')", 1),
        ("this is no Python", 1),
        ("import os; os._exit(4)", 4),
    ],
)
def test_exit_codes(tmp_path: Path, text: str, code: int) -> None:
    assert run(tmp_path, text).returncode == code


def test_a_traceback_shows_the_program_and_nothing_of_ours(tmp_path: Path) -> None:
    said = run(tmp_path, "def f():\n    raise ValueError('broken')\n\nf()\n").stderr
    assert said.startswith("Traceback (most recent call last):\n")
    assert said.endswith("ValueError: broken\n")
    assert "app.py" in said
    assert "runpy" not in said and "sparkscale" not in said


def test_a_reason_to_exit_is_printed(tmp_path: Path) -> None:
    assert run(tmp_path, "import sys; sys.exit('no input')").stderr == "no input\n"


def test_it_has_ended_when_its_threads_have(tmp_path: Path) -> None:
    text = (
        "import threading, time\n"
        "def late():\n    time.sleep(0.2)\n    print('late')\n"
        "threading.Thread(target=late).start()\n"
    )
    assert run(tmp_path, text + "raise SystemExit(5)").stdout == "late\n"
