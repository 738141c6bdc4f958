"""Programs run as they would by `python program.py`."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import HANGS

RUN = (
    "import sys; from pathlib import Path; "
    "from dagster_sparkscale.driver.begin.program import run; "
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


@pytest.mark.parametrize(
    ("text", "of"),
    [
        ("import sys; sys.exit('no input')", "no input"),
        ("import sys; sys.exit('')", "SystemExit"),
        ("import sys; sys.exit(3)", None),
        ("import sys; sys.exit()", None),
        ("raise ValueError('broken')", "ValueError: broken"),
    ],
)
def test_what_it_died_of_is_told_also_where_it_has_ended_itself(
    tmp_path: Path, text: str, of: str | None
) -> None:
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from dagster_sparkscale.driver.begin import program\n"
        "from dagster_sparkscale.driver.ending import end_report\n"
        "died = lambda error: print(end_report.raised(error))\n"
        "sys.exit(program.run(Path(sys.argv[1]), [], died=died))\n"
    )
    app = tmp_path / "app.py"
    app.write_text(text)
    command = [sys.executable, "-c", code, str(app)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS, check=False)
    assert done.stdout == (f"{of}\n" if of else "")


def test_it_has_ended_when_its_threads_have(tmp_path: Path) -> None:
    text = (
        "import threading, time\n"
        "def late():\n    time.sleep(0.2)\n    print('late')\n"
        "threading.Thread(target=late).start()\n"
    )
    assert run(tmp_path, text + "raise SystemExit(5)").stdout == "late\n"


def test_an_idle_pool_does_not_keep_a_program_that_failed(tmp_path: Path) -> None:
    pools = "from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(2)\n"
    (tmp_path / "pools.py").write_text(pools)
    text = "from pools import pool\nprint(pool.submit(int, '7').result())\n"
    done = run(tmp_path, text + "raise RuntimeError('broken')\n")
    assert (done.returncode, done.stdout) == (1, "7\n")
    assert done.stderr.endswith("RuntimeError: broken\n")


def test_what_a_pool_was_given_is_done_before_the_end(tmp_path: Path) -> None:
    text = (
        "import time\nfrom concurrent.futures import ThreadPoolExecutor\n"
        "def work():\n    time.sleep(0.2)\n    print('done')\n"
        "ThreadPoolExecutor(1).submit(work)\n"
    )
    assert run(tmp_path, text).stdout == "done\n"


def test_an_error_reporter_is_told(tmp_path: Path) -> None:
    text = (
        "import sys, traceback\n"
        "def hook(kind, error, trace):\n"
        "    print(kind.__name__, error, [f.name for f in traceback.extract_tb(trace)])\n"
        "sys.excepthook = hook\n"
        "def f():\n    raise ValueError('broken')\n"
        "f()\n"
    )
    done = run(tmp_path, text)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == "ValueError broken ['<module>', 'f']\n"


def test_an_error_reporter_that_breaks_hides_nothing(tmp_path: Path) -> None:
    text = "import sys\nsys.excepthook = lambda *error: 1 / 0\nraise ValueError('broken')\n"
    done = run(tmp_path, text)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr and "ValueError: broken" in done.stderr


@pytest.mark.parametrize("text", ["1 / 0", "import sys; sys.exit(3)", "'unclosed"])
def test_it_says_what_plain_python_says(tmp_path: Path, text: str) -> None:
    done = run(tmp_path, text)
    command = [sys.executable, str(tmp_path / "app.py")]
    plain = subprocess.run(command, capture_output=True, text=True, timeout=HANGS, check=False)
    assert (done.returncode, done.stderr) == (plain.returncode, plain.stderr)


def test_main_is_the_program_for_threads_and_exit_handlers_that_outlive_it(tmp_path: Path) -> None:
    text = (
        "import atexit, pickle, sys, threading, time, traceback\n"
        "class Thing:\n    pass\n"
        "def late(who):\n    print(who, type(pickle.loads(pickle.dumps(Thing()))) is Thing)\n"
        "def main_runs():\n"
        "    stack = traceback.extract_stack(sys._current_frames()[main])\n"
        "    return any(frame.filename == __file__ for frame in stack)\n"
        "def outlive():\n"
        "    while main_runs():\n        time.sleep(0.01)\n"
        "    late('thread')\n"
        "main = threading.get_ident()\n"
        "atexit.register(late, 'exit')\n"
        "threading.Thread(target=outlive).start()\n"
    )
    assert run(tmp_path, text).stdout.splitlines() == ["thread True", "exit True"]


def test_what_the_program_left_running_may_go_on_with_pools_until_it_is_finished(
    tmp_path: Path,
) -> None:
    """A query that is drained after the program returned may hand work to a pool in its batch."""
    program = tmp_path / "program.py"
    program.write_text("print('returned', flush=True)\n")
    code = (
        "import sys\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from pathlib import Path\n"
        "from dagster_sparkscale.driver.begin.program import run\n"
        "def finish():\n"
        "    with ThreadPoolExecutor(1) as pool:\n"
        "        print(pool.submit(lambda: 'finished').result(), flush=True)\n"
        "sys.exit(run(Path(sys.argv[1]), [], finish))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(program)], capture_output=True, text=True, timeout=HANGS
    )
    assert (done.stdout, done.returncode) == ("returned\nfinished\n", 0), done.stderr
