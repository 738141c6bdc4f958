"""The files a team copies: definitions.py and its sensors, where nothing else is known."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.waiting import HANGS

ROOT = Path(__file__).parents[1]
LOAD = """
import sys
import dagster as dg
import definitions
dg.Definitions.validate_loadable(definitions.defs)
assert {stream.name for stream in definitions.STREAMS} == set(sys.argv[1:])
ours = [name for name in ("demo", "dev", "jobs", "tests") if name in sys.modules]
assert not ours, ours
assert {each.name for each in definitions.defs.sensors} >= {"autoscaler", "visits_caught_up"}
assert {each.name for each in definitions.defs.schedules} >= {"maintain_clicks", "retune_orders"}
"""


@pytest.mark.parametrize(
    ("env", "more"),
    [
        ({}, []),
        ({"PAYMENTS_BROKERS": "127.0.0.1:9092", "KAFKA_CONNECTOR": "/jars/a.jar"}, ["payments"]),
    ],
)
def test_it_loads_where_it_was_copied_to_and_without_a_warning(
    tmp_path: Path, env: Mapping[str, str], more: list[str]
) -> None:
    shutil.copy(ROOT / "definitions.py", tmp_path)
    shutil.copytree(ROOT / "sensors", tmp_path / "sensors")
    done = subprocess.run(
        [sys.executable, "-W", "default", "-c", LOAD, "clicks", "orders", "visits", *more],
        env={**os.environ, **env},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if "Warning" in line] == []
    assert {path.name for path in tmp_path.iterdir()} - {"__pycache__"} == {
        "definitions.py",
        "sensors",
    }
