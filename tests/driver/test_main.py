"""The driver as a file: spark-submit runs it by its path, and not as a module of a package."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from dagster_sparkscale.driver import __main__ as main
from tests.driver.conftest import PROGRAMS
from tests.driver.running import TOKEN, environment
from tests.waiting import HANGS


def test_it_finds_its_package_where_none_is_installed() -> None:
    # -S: without the packages of this environment.
    command = [sys.executable, "-S", main.__file__, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "--initial-executors" in done.stdout


def test_a_python_that_is_too_old_is_told_before_its_code_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 18, "final", 0))
    monkeypatch.setattr(sys, "version", "3.9.18 (main, Nov 2 2023) [GCC]")
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(main.__file__, run_name="__main__")
    said = "sparkscale: a driver needs Python 3.10 or newer; this is 3.9.18"
    assert ended.value.code == said


@pytest.mark.clusters
@pytest.mark.spark
def test_spark_submit_runs_it(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    said = tmp_path / "said"
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    command = [
        *(str(submit), "--master", "local[1]", "--name", "submitted", "--conf", "spark.ui.port=0"),
        *(main.__file__, "--stream", "tested", "--epoch", "1", "--interval-ms", "1000"),
        *("--initial-executors", "1", "--token-file", str(tmp_path / "token")),
        *(str(PROGRAMS / "settings.py"), str(said), sys.executable),
    ]
    done = subprocess.run(
        command,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(said.read_text())["shuffle.partitions"] == "7"
    assert "sparkscale: agent of tested" in done.stdout  # where spark-submit puts all it says
