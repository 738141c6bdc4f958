"""What `make test` costs: how soon it answers, and how much CPU it takes.

Both are ratios to what every test of this project pays for: an import of Dagster, and a Spark
driver that runs one small query. The tests run once, as `make test` runs them.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import first_results
from benchmarks.figures import Figure
from tests.short_lives import for_short_lives

GOAL_FIRST_ANSWER = 30.0
GOAL_CPU = 2.5
_DRIVERS = 100
_REPETITIONS = 5
_QUERY = Path(__file__).parent / "programs" / "one_query.py"


def cpu_seconds(folder: Path, *command: str, environment: dict[str, str]) -> float:
    """What a command and all that it starts take of the CPU.

    Raises:
        SystemExit: the command failed.
    """
    file = folder / "cpu"
    reaped = [sys.executable, "-m", "benchmarks.reaped", str(file), *command]
    if subprocess.run(reaped, env=environment).returncode:
        sys.exit(f"failed: {' '.join(command)}")
    return float(file.read_text())


def importing(what: str) -> float:
    """Seconds of the clock until a new Python has imported a module."""
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", f"import {what}"], check=True)
    return time.perf_counter() - begun


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="sparkscale-bench-") as name:
        folder = Path(name)
        file = folder / "first-results"
        begun = time.time()
        tests = cpu_seconds(
            folder,
            *("make", "--no-print-directory", "test", "ARGS=-p benchmarks.first_results"),
            environment={**os.environ, first_results.FILE: str(file)},
        )
        whole, first = time.time() - begun, float(file.read_text()) - begun
        as_tests_run = dict(os.environ)
        for_short_lives(as_tests_run)
        drivers = [
            cpu_seconds(folder, sys.executable, str(_QUERY), environment=as_tests_run)
            for _ in range(_REPETITIONS)
        ]
    imports = [importing("dagster") for _ in range(_REPETITIONS)]
    one = statistics.median(drivers)
    return [
        Figure(
            name="suite_first_answer",
            value=round(first / statistics.median(imports), 1),
            unit="ratio",
            goal=GOAL_FIRST_ANSWER,
            better="lower",
            detail={
                "ours": f"until {first_results.RESULTS} tests of make test have told their result",
                "theirs": "import dagster",
                "seconds": round(first, 1),
                "import_seconds": [round(each, 2) for each in imports],
                "whole_run_seconds": round(whole),
            },
        ),
        Figure(
            name="suite_cpu",
            value=round(tests / (_DRIVERS * one), 2),
            unit="ratio",
            goal=GOAL_CPU,
            better="lower",
            detail={
                "ours": "CPU of make test and of all that it starts",
                "theirs": f"CPU of {_DRIVERS} drivers that run one small query each",
                "cpu_seconds": round(tests),
                "driver_cpu_seconds": [round(each, 2) for each in drivers],
            },
        ),
    ]
