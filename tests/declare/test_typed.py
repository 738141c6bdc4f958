"""What a type checker says of a user's file: it knows no plugin of pydantic's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.clusters  # it reads all of Dagster first

ROOT = Path(__file__).parents[2]
RIGHT = """
from dagster_sparkscale import LocalCluster, RatioPolicy, RecoveryPolicy
from dagster_sparkscale import StructuredStream, build_defs

clicks = StructuredStream(
    name="clicks",
    program="jobs/clicks.py",
    arguments=("--input", "/data/clicks"),
    batch_interval="10s",
    checkpoint_location="/data/checkpoints/clicks",
    autoscale=RatioPolicy(max_executors=8, max_lag="5 min", interval=30),
    recovery=RecoveryPolicy(first_delay="30s"),
    report_every="1h",
)
defs = build_defs([clicks], cluster=LocalCluster())
"""
WRONG = RIGHT.replace('name="clicks"', "name=1").replace("max_executors=8", 'max_executors="8"')


def checked(folder: Path, text: str) -> list[str]:
    """The errors of mypy in a user's file of that text."""
    (folder / "user.py").write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-error-summary"]
    # Found by its path, as one that is installed in place is not: then silent of its inside.
    done = subprocess.run(
        [*command, "--follow-imports=silent", "--cache-dir", str(folder / "cache"), "user.py"],
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout.splitlines()


def test_durations_may_be_texts_and_what_is_wrong_is_found(tmp_path: Path) -> None:
    assert checked(tmp_path, RIGHT) == []
    wrong = checked(tmp_path, WRONG)
    assert [
        line.partition(" has incompatible")[0].rpartition("Argument ")[2] for line in wrong
    ] == [
        '"name" to "StructuredStream"',
        '"max_executors" to "RatioPolicy"',
    ]
